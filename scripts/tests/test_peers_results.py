from __future__ import annotations

from pathlib import Path

from interop.peers.results import drafts, figures, with_figures
from mcp_conformance.runners.judged_messages import JUDGED_NOTE

_COUNTS = {"passed": 5, "failed": 2, "broken": 1, "warning": 4, "not testable": 3}
_REQUIREMENT = {"id": "a.rule", "level": "MUST", "place": "basic/index, Responses", "text": "It responds."}
_FAILED: dict[str, object] = {
    "check": "a.one",
    "title": "It responds.",
    "outcome": "failed",
    "transport": "http",
    "requirements": [_REQUIREMENT],
    "expected": "a response",
    "observed": "nothing",
    "transcript": ["--> POST /mcp", '--> {"method":"ping"}', "  -- waited"],
    "again": "mcp-conformance server --command /here/x --check a.one",
}
_DOCUMENT: dict[str, object] = {
    "lanes": [
        {"revision": "2025-11-25", "transport": "http", "refusal": None, "counts": _COUNTS},
        {"revision": "2026-07-28", "transport": "http", "refusal": "unsupported", "counts": {}},
    ],
    "verdicts": [
        {**_FAILED, "revision": "2025-06-18"},
        {**_FAILED, "revision": "2025-11-25"},
        {**_FAILED, "revision": "2025-11-25", "check": "a.unconfirmed"},
    ],
}


def test_figures_have_counts_of_supported_revisions() -> None:
    assert figures({("some", "server"): [_DOCUMENT]})[2:] == ["| some | server | http |  |  |  | 5 / 3 / 4 / 3 |  |"]


def test_figures_of_page_are_replaced_with_their_day() -> None:
    page = "of a run on 2020-01-01.\n\n| peer | role | x |\n| old |\n\nThe end"
    assert with_figures(page, ["| new |"], "2026-11-26") == "of a run on 2026-11-26.\n\n| new |\n\nThe end"


def test_draft_has_newest_revision_messages_and_command() -> None:
    known = {"some server": {"a.one": "It is silent."}}
    text = "\n".join(drafts({("some", "server"): [_DOCUMENT]}, known, {"some": "python@1.0"}, Path("/here")))
    assert "## python@1.0, as a server\n\n### It responds.\n\nIt is silent. Checks: `a.one`.\n" in text
    assert "in 2025-06-18, 2025-11-25 over http" in text
    assert "(2025-11-25, basic/index, Responses; MUST): It responds." in text
    assert '    --> {"method":"ping"}\n\n    To reproduce it:' in text
    assert "    $ mcp-conformance server --command x --check a.one" in text
    assert "POST" not in text
    assert "unconfirmed" not in text


def test_draft_shows_messages_around_judged_one() -> None:
    sent = [f'--> {{"id":{number}}}' for number in range(20)]
    transcript = [*sent[:10], "<-- POST /mcp | Host: here", JUDGED_NOTE, *sent[10:], "  -- JSON follows"]
    document = {"lanes": [], "verdicts": [{**_FAILED, "revision": "2025-11-25", "transcript": transcript}]}
    text = "\n".join(
        drafts({("some", "server"): [document]}, {"some server": {"a.one": "-"}}, {"some": "x"}, Path("/"))
    )
    assert [line.strip() for line in text.splitlines() if '"id"' in line] == sent[6:12]
