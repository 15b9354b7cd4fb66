from __future__ import annotations

import subprocess
import textwrap
from typing import TYPE_CHECKING

import pytest

from checks.words import (
    CLASS_NAMES,
    ELSEWHERE,
    IMPERATIVE,
    NAMES,
    NOUN_PHRASE,
    PRONOUN,
    PROSE,
    TEST_NAME,
    Finding,
    Rule,
    check_file,
    main,
)

if TYPE_CHECKING:
    from pathlib import Path


def findings(source: str, path: str = "sample.py", **words: str) -> list[Finding]:
    """Return the findings in a source, in which words stand for the names in braces."""
    text = textwrap.dedent(source)
    for name, word in words.items():
        text = text.replace("{" + name + "}", word)
    return list(check_file(path, text))


def found(source: str, path: str = "sample.py", **words: str) -> list[tuple[int, str]]:
    return [(finding.line, finding.found) for finding in findings(source, path, **words)]


def test_plain_source_has_no_findings() -> None:
    source = '''
        """Sessions of Streamable HTTP."""

        LIMIT = 3
        """Sessions of one client."""


        class Session:
            """A session of Streamable HTTP."""

            def close(self) -> None:
                """Close the session. Later requests get status 404."""
                # The client may be gone.
                raise ValueError("the session has ended; open another one")
    '''
    assert findings(source) == []


@pytest.mark.parametrize(
    "word",
    [
        "nobody",
        "Nobody's",
        "whom",
        "his",
        "told",
        "tells",
        "people",
        "mend",
        "whilst",
        "behaviour",
        "licence",
        "serialised",
        "fulfil",
        "anew",
    ],
)
def test_rejected_word_in_comment_found(word: str) -> None:
    assert [text.lower() for _, text in found("x = 1  # so {word} here\n", word=word)] == [word.lower()]


@pytest.mark.parametrize(
    "phrase",
    [
        "for_want_of",
        "is_none",
        "to_be_had",
        "by_itself",
        "no_one",
        "lets_them_in",
        "for_ever",
        "it_no_longer",
        "what_comes_of",
        "of_no_use",
        "is_green",
    ],
)
def test_rejected_phrase_in_comment_found(phrase: str) -> None:
    assert len(found("x = 1  # and {phrase} a socket\n", phrase=phrase.replace("_", " "))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "The request times out after 3 seconds.",
        "question mark",
        "a round trip, rounded up, in a round-robin",
        "a stand-in, a stand-alone program",
        "the cancelled task; cancelling it",
        "precise, otherwise, raised, exercise, enterprise, advertised, supervised",
        "None of them is of none.",
        "the header, the theme, the shebang",
        "canceled, labeled, installs, levels",
    ],
)
def test_similar_words_in_comment_accepted(text: str) -> None:
    assert found("x = 1  # {text}\n", text=text) == []


def test_phrase_over_two_comment_lines_found_on_first() -> None:
    assert found("x = 1\n# It waits {first}\n# {second} a reply.\n", first="for", second="want of") == [
        (2, " ".join(("for", "want of")))
    ]


def test_phrase_over_two_string_pieces_found() -> None:
    assert found('x = ("a session is not {first}"\n     " {second} now")\n', first="to be", second="had") == [
        (1, " ".join(("is not", "to be", "had")))
    ]


def test_word_in_docstring_found_with_line() -> None:
    assert found('"""The server.\n\nA client is\n{word} of changes.\n"""\n', word="told") == [(4, "told")]


def test_word_in_f_string_found_without_values() -> None:
    assert found(
        'x = f"{value} is {word} now"\ny = f"the file {other} is missing"\n', value="{x}", word="told", other="{told}"
    ) == [(1, "told")]


@pytest.mark.parametrize(
    "quoted",
    [
        "`{word} of`",
        '"{word} of it"',
        "\u201c{word}\u201d",
        "https://example.com/{word}/x",
        "basic/transports#{word}-x",
        "``{word}``",
    ],
)
def test_quoted_word_in_comment_skipped(quoted: str) -> None:
    assert found("x = 1  # the key {quoted} of a peer\n", quoted=quoted.replace("{word}", "told")) == []


def test_quotation_over_two_lines_skipped() -> None:
    assert found('# The page says "a client is\n# {word} of it". So be it.\nx = 1\n', word="told") == []


def test_string_of_one_word_skipped() -> None:
    assert found('x = {"{word}": "{word}"}\n', word="told") == []


@pytest.mark.parametrize("name", ["was_{word}", "{word}", "_{word}_by", "is{Word}"])
@pytest.mark.parametrize("word", ["told", "nobody", "asked", "shelf", "behaviour"])
def test_rejected_word_in_defined_name_found(name: str, word: str) -> None:
    name = name.replace("{word}", word).replace("{Word}", word.title())
    for source in (
        "{name} = 1\n",
        "def {name}(): ...\n",
        "def f({name}): ...\n",
        "x.{name} = 1\n",
        "import os as {name}\n",
    ):
        assert found(source, name=name) == [(1, name)]


def test_name_only_used_accepted() -> None:
    assert found("x = library.{name}(1)\n", name="told") == []


def test_rejected_module_name_found() -> None:
    assert found("", "package/_told.py") == [(1, "_told")]


@pytest.mark.parametrize("name", ["Owed", "_Owed", "Signed", "Herald", "InRounds", "Call"])
def test_private_class_name_found(name: str) -> None:
    assert (1, name) in found("class {name}: ...\n", name=name)


@pytest.mark.parametrize("name", ["SignedJwt", "CallMemory", "Seed", "LineFramer", "PendingRequest"])
def test_class_name_with_role_accepted(name: str) -> None:
    assert found("class {name}: ...\n", name=name) == []


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("test_{}_closed_session_returns_404", False),
        ("test_session_closed_returns_404", True),
        ("test_thermometer_unplugged_fails", True),
    ],
)
@pytest.mark.parametrize("article", ["a", "the", "what"])
def test_test_name_as_sentence_found(name: str, good: bool, article: str) -> None:
    rules = [finding.rule for finding in findings("def {name}(): ...\n", name=name.replace("{}", article))]
    assert rules == ([] if good else [TEST_NAME])


@pytest.mark.parametrize(
    "summary",
    [
        "Return the id.",
        "Do not wait.",
        "Lazily open the file.",
        "Re-read the file.",
        "Percent-encode a name.",
        "Close, then wait.",
    ],
)
def test_imperative_summary_of_function_accepted(summary: str) -> None:
    assert found('def f():\n    """{summary}"""\n', summary=summary) == []


@pytest.mark.parametrize(
    "summary",
    [
        "Returns the id.",
        "The id.",
        "What the client sends.",
        "Name of the server.",
        "It closes.",
        "`None` for others.",
        "Result is an id.",
    ],
)
def test_summary_of_function_without_verb_found(summary: str) -> None:
    assert [each.rule for each in findings('async def f():\n    """{summary}"""\n', summary=summary)] == [IMPERATIVE]


@pytest.mark.parametrize(
    "decorator", ["property", "pytest.fixture", "server.resource('a://b')", "check('tools.order')", "cached_property"]
)
def test_noun_phrase_of_described_function_accepted(decorator: str) -> None:
    assert found('@{decorator}\ndef f():\n    """The id."""\n', decorator=decorator) == []


@pytest.mark.parametrize(
    ("summary", "rule"),
    [
        ("What a client sends.", NOUN_PHRASE),
        ("Keeps sessions.", NOUN_PHRASE),
        ("Carries messages.", NOUN_PHRASE),
        ("It keeps sessions.", PRONOUN),
        ("See `Session.close`.", ELSEWHERE),
        ("A session.", None),
        ("Requests of a client.", None),
    ],
)
def test_summary_of_class_checked(summary: str, rule: Rule | None) -> None:
    rules = [finding.rule for finding in findings('class Session:\n    """{summary}"""\n', summary=summary)]
    assert rules == ([] if rule is None else [rule])


@pytest.mark.parametrize("text", ["See `Store.close`.", "See `Store`", "As `Store.close` does.", "See Store.close."])
def test_docstring_with_reference_only_found(text: str) -> None:
    assert [finding.rule for finding in findings('def f():\n    """{text}"""\n', text=text)] == [ELSEWHERE]


def test_markdown_checked_without_code_quotes_and_targets() -> None:
    page = """\
        # The server

        A client is {word} of it, see [the page](https://example.com/{word}).
        `{word}` is a value.

        > A server {word} its client.

        ```text
        {word}
        ```

        ```python
        x = 1  # it was {word}
        ```
    """
    assert found(page, "page.md", word="told") == [(13, "told"), (3, "told")]


def test_html_checked_without_templates_and_styles() -> None:
    page = """\
        <style>.{word} { color: red }</style>
        <p title="it was {word}">{{ {word} }} is <b>{word}</b> here</p>
    """
    assert sorted(found(page, "page.html", word="told")) == [(2, "told"), (2, "told")]


def test_toml_comments_and_values_checked() -> None:
    table = '# It was {word}.\n"a.{word}" = "The client {word} it."\nb = "{word}"\n'
    assert found(table, "table.toml", word="told") == [(1, "told"), (2, "told")]


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("run", "#!/bin/sh\n# It was {word}.\n{word}\n"),
        ("run.yml", "a: {word}\n# It was {word}.\n"),
        ("style.css", "{word} {}\n/* It was {word}. */\n"),
        ("page.mjs", "{word}();\n// It was {word}.\n"),
    ],
)
def test_comments_of_scripts_and_styles_checked(path: str, source: str) -> None:
    assert found(source, path, word="told") == [(2, "told")]


def test_python_script_without_suffix_checked_as_python() -> None:
    assert found("#!/usr/bin/env python3\nx = 'it was {word}'\n", "run", word="told") == [(2, "told")]


@pytest.mark.parametrize("rule", [*PROSE, *NAMES, *CLASS_NAMES], ids=lambda rule: rule.pattern[:40])
def test_rule_has_reason_and_advice(rule: Rule) -> None:
    assert rule.pattern.startswith("`")
    assert rule.pattern.endswith("`")
    assert rule.reason
    assert rule.instead.startswith(("write", "use", "name", "repeat", "rewrite", "begin"))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    word = "told"
    for path, text in {
        "one/a.py": f"# it was {word}\n",
        "one/b.md": f"It was {word}, and {word}.\n",
        "two/c.py": "# clean\n",
        "docs/reference/modules/d.md": f"It was {word}.\n",
        "ignored/e.md": f"It was {word}.\n",
        ".gitignore": "ignored\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def test_main_with_findings_prints_them_and_fails(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(repository)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(" ")[0] for line in lines] == [
        f"{repository}/one/a.py:1:",
        *[f"{repository}/one/b.md:1:"] * 2,
    ]


def test_main_without_findings_succeeds(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(repository / "two"), str(repository / "two" / "c.py")]) == 0
    assert capsys.readouterr().out == ""


def test_main_with_count_prints_findings_of_each_folder(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--count", str(repository)]) == 1
    assert capsys.readouterr().out.split() == ["3", f"{repository}/one", "3", "in", "all"]


def test_main_with_words_prints_findings_of_each_rule(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--words", str(repository / "one")]) == 1
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["3", "3"]
