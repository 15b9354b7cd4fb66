"""URI templates: expansion by RFC 6570, and matching as its inverse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mcp_core.errors import LimitExceeded
from mcp_server.uris.template import AmbiguousTemplate, InvalidTemplate, UriTemplate

if TYPE_CHECKING:
    from mcp_server.uris.template import Value

# The variables of RFC 6570, section 3.2.
RFC_VALUES: dict[str, Value | None] = {
    "count": ["one", "two", "three"],
    "dom": ["example", "com"],
    "dub": "me/too",
    "hello": "Hello World!",
    "half": "50%",
    "var": "value",
    "who": "fred",
    "base": "http://example.com/home/",
    "path": "/foo/bar",
    "list": ["red", "green", "blue"],
    "keys": {"semi": ";", "dot": ".", "comma": ","},
    "v": "6",
    "x": "1024",
    "y": "768",
    "empty": "",
    "empty_keys": {},
    "undef": None,
}

EXPANSIONS = """
{count} one,two,three | {count*} one,two,three | {/count} /one,two,three | {/count*} /one/two/three
{;count} ;count=one,two,three | {;count*} ;count=one;count=two;count=three | {?count} ?count=one,two,three
{?count*} ?count=one&count=two&count=three | {&count*} &count=one&count=two&count=three
{var} value | {hello} Hello%20World%21 | {half} 50%25 | O{empty}X OX | O{undef}X OX | {x,y} 1024,768
{x,hello,y} 1024,Hello%20World%21,768 | ?{x,empty} ?1024, | ?{x,undef} ?1024 | ?{undef,y} ?768
{var:3} val | {var:30} value | {list} red,green,blue | {list*} red,green,blue
{keys} semi,%3B,dot,.,comma,%2C | {keys*} semi=%3B,dot=.,comma=%2C
{+var} value | {+hello} Hello%20World! | {+half} 50%25 | {base}index http%3A%2F%2Fexample.com%2Fhome%2Findex
{+base}index http://example.com/home/index | O{+empty}X OX | O{+undef}X OX | {+path}/here /foo/bar/here
here?ref={+path} here?ref=/foo/bar | up{+path}{var}/here up/foo/barvalue/here | {+x,hello,y} 1024,Hello%20World!,768
{+path,x}/here /foo/bar,1024/here | {+path:6}/here /foo/b/here | {+list} red,green,blue | {+list*} red,green,blue
{+keys} semi,;,dot,.,comma,, | {+keys*} semi=;,dot=.,comma=,
{#var} #value | {#hello} #Hello%20World! | {#half} #50%25 | foo{#empty} foo# | foo{#undef} foo
{#x,hello,y} #1024,Hello%20World!,768 | {#path,x}/here #/foo/bar,1024/here | {#path:6}/here #/foo/b/here
{#list} #red,green,blue | {#list*} #red,green,blue | {#keys} #semi,;,dot,.,comma,, | {#keys*} #semi=;,dot=.,comma=,
{.who} .fred | {.who,who} .fred.fred | {.half,who} .50%25.fred | www{.dom*} www.example.com | X{.var} X.value
X{.empty} X. | X{.undef} X | X{.var:3} X.val | X{.list} X.red,green,blue | X{.list*} X.red.green.blue
X{.keys} X.semi,%3B,dot,.,comma,%2C | X{.keys*} X.semi=%3B.dot=..comma=%2C | X{.empty_keys} X | X{.empty_keys*} X
{/who} /fred | {/who,who} /fred/fred | {/half,who} /50%25/fred | {/who,dub} /fred/me%2Ftoo | {/var} /value
{/var,empty} /value/ | {/var,undef} /value | {/var,x}/here /value/1024/here | {/var:1,var} /v/value
{/list} /red,green,blue | {/list*} /red/green/blue | {/list*,path:4} /red/green/blue/%2Ffoo
{/keys} /semi,%3B,dot,.,comma,%2C | {/keys*} /semi=%3B/dot=./comma=%2C
{;who} ;who=fred | {;half} ;half=50%25 | {;empty} ;empty | {;v,empty,who} ;v=6;empty;who=fred | {;v,bar,who} ;v=6;who=fred
{;x,y} ;x=1024;y=768 | {;x,y,empty} ;x=1024;y=768;empty | {;x,y,undef} ;x=1024;y=768 | {;hello:5} ;hello=Hello
{;list} ;list=red,green,blue | {;list*} ;list=red;list=green;list=blue | {;keys} ;keys=semi,%3B,dot,.,comma,%2C
{;keys*} ;semi=%3B;dot=.;comma=%2C
{?who} ?who=fred | {?half} ?half=50%25 | {?x,y} ?x=1024&y=768 | {?x,y,empty} ?x=1024&y=768&empty= | {?x,y,undef} ?x=1024&y=768
{?var:3} ?var=val | {?list} ?list=red,green,blue | {?list*} ?list=red&list=green&list=blue
{?keys} ?keys=semi,%3B,dot,.,comma,%2C | {?keys*} ?semi=%3B&dot=.&comma=%2C
{&who} &who=fred | {&half} &half=50%25 | ?fixed=yes{&x} ?fixed=yes&x=1024 | {&x,y,empty} &x=1024&y=768&empty=
{&x,y,undef} &x=1024&y=768 | {&var:3} &var=val | {&list} &list=red,green,blue | {&list*} &list=red&list=green&list=blue
{&keys} &keys=semi,%3B,dot,.,comma,%2C | {&keys*} &semi=%3B&dot=.&comma=%2C
"""
EXPANSION_CASES = [tuple(row.split()) for line in EXPANSIONS.strip().splitlines() for row in line.split(" | ")]


@pytest.mark.parametrize(("template", "uri"), EXPANSION_CASES)
def test_rfc_examples_expand_as_specified(template: str, uri: str) -> None:
    assert UriTemplate(template, expand_only=True).expand(RFC_VALUES) == uri


def test_expansion_table_is_complete() -> None:
    assert len(EXPANSION_CASES) == EXPANSIONS.count(" | ") + EXPANSIONS.strip().count("\n") + 1
    assert len(EXPANSION_CASES) > 110


def test_literal_is_percent_encoded() -> None:
    template = UriTemplate("docs://größe/%41/{x}")
    assert template.expand({"x": "ä"}) == "docs://gr%C3%B6%C3%9Fe/%41/%C3%A4"
    assert template.match("docs://gr%C3%B6%C3%9Fe/%41/%C3%A4") == {"x": "ä"}


def test_empty_value_in_exploded_mapping_follows_operator() -> None:
    values: dict[str, Value | None] = {"m": {"a": ""}}
    assert UriTemplate("{?m*}").expand(values) == "?a="
    assert UriTemplate("{;m*}").expand(values) == ";a"
    assert UriTemplate("{m*}").expand(values) == "a="


def test_prefix_of_list_raises() -> None:
    with pytest.raises(ValueError, match="'x'"):
        UriTemplate("{x:3}").expand({"x": ["a", "b"]})


def test_variables_are_unique_and_ordered() -> None:
    assert UriTemplate("{b}/{a}/{b}{?c,d*}").variables == ("b", "a", "c", "d")
    assert repr(UriTemplate("x/{a}")) == "UriTemplate('x/{a}')"


@pytest.mark.parametrize(
    "template",
    [
        "{",
        "a{b",
        "}",
        "a}b",
        "{}",
        "{a b}",
        "{+}",
        "{a,}",
        "{!a}",
        "{=a}",
        "{a:0}",
        "{a:10000}",
        "{a:x}",
        "{a**}",
        "{a*:3}",
        "{a..b}",
        "{.}",
        "{{a}}",
        "a b",
        "a\nb",
        "50%",
        "%zz",
        "a\x00",
        "<a>",
        "a\\b",
        "\ud800",
        "{a%}",
        "{ä}",
    ],
)
def test_invalid_template_raises(template: str) -> None:
    with pytest.raises(InvalidTemplate) as caught:
        UriTemplate(template)
    assert caught.value.template == template


@pytest.mark.parametrize(
    "template",
    [
        "{a}{b}",
        "{a}{+b}",
        "{/a*}{/b}",
        "{/a}{/b}",
        "{/a*}{.b}{/c}",
        "{?a}{?b}",
        "{?a,b}{&c}",
        "{+a}{/b}",
        "{+a}{&b}",
        "{#a}{?b}",
        "{#a}{#b}",
        "{a*,b}",
        "{/a*,b}",
        "{+a,b}",
        "{#a,b}",
        "{?a*,b*}",
        "{+a}{;b}",
        "{a,b}{c}",
        "x{a}{b}y",
    ],
)
def test_ambiguous_template_raises(template: str) -> None:
    with pytest.raises(AmbiguousTemplate):
        UriTemplate(template)
    expand_only = UriTemplate(template, expand_only=True)
    assert expand_only.match(expand_only.expand({"a": "1"})) is None


MATCHES: list[tuple[str, str, object]] = [
    ("a://b", "a://b", {}),
    ("a://b", "a://bc", None),
    ("a/{x}", "a/1", {"x": "1"}),
    ("a/{x}", "b/1", None),
    ("a/{x}", "a/", {}),
    ("a/{x}/", "a/", None),
    ("{x}", "", {}),
    ("a/{x}/b", "a/1/b", {"x": "1"}),
    ("a/{x}/b", "a/1/c", None),
    ("a/{x}/b/{y}", "a/1/2/b/3", None),
    ("a/{x}/b/{y}", "a/1/3", None),
    ("a/{x}", "a/1/2", None),
    ("a/{x}", "a/1?q=2", None),
    ("a/{x}", "a/1#f", None),
    ("u/{x}", "u/some@example.com:8,(9)", {"x": "some@example.com:8,(9)"}),
    ("f/{name}.txt", "f/a.txt.txt", {"name": "a.txt"}),
    ("{year}-{month}", "2026-11", {"year": "2026", "month": "11"}),
    ("{name}.{ext}", "a.b.c", {"name": "a.b", "ext": "c"}),
    ("{+p}/raw/{a}-{b}", "x/raw/y/raw/1-2", {"p": "x/raw/y", "a": "1", "b": "2"}),
    ("{x}://{y}", "a://b", {"x": "a", "y": "b"}),
    ("f://{+path}", "f://a/b/c", {"path": "a/b/c"}),
    ("f://{+path}/raw/{ref}", "f://a/raw/b/raw/main", {"path": "a/raw/b", "ref": "main"}),
    ("f://{+path}/raw/{ref}", "f://a/b", None),
    ("f://{ref}/raw/{+path}", "f://main/raw/a/raw/b", {"ref": "main", "path": "a/raw/b"}),
    ("f://{a}/{+p}/x/{b}/{c}", "f://1/2/3/x/4/5", {"a": "1", "p": "2/3", "b": "4", "c": "5"}),
    ("f{/path*}", "f/a/b%20c", {"path": ["a", "b c"]}),
    ("f{/path*}", "f", {}),
    ("f{/path*}", "f/", None),
    ("f{/path*}", "f/a//b", None),
    ("f{/path*}", "f/a=b/c", {"path": ["a=b", "c"]}),
    ("f{/path*}", "fx", None),
    ("f{/a,b}", "f/1", {"a": "1"}),
    ("f{/a,b}", "f/1/2", {"a": "1", "b": "2"}),
    ("f{/a,b}", "f/1/2/3", None),
    ("f{/a,b*}", "f/1", {"a": "1"}),
    ("f{/a,b*}", "f/1/2/3", {"a": "1", "b": ["2", "3"]}),
    ("f{.ext}", "f.tar.gz", {"ext": "tar.gz"}),
    ("{x,y}", "1,2", {"x": "1", "y": "2"}),
    ("{x}{.ext}", "a.b", {"x": "a", "ext": "b"}),
    ("{a}{.b}{/c}", "x/y.z", {"a": "x", "c": "y.z"}),
    ("{x}{?q}", "a", {"x": "a"}),
    ("{x}{?q}", "a?q=", {"x": "a", "q": ""}),
    ("{x}{?q}", "a?q", {"x": "a", "q": ""}),
    ("{x}{?q,r}", "a?r=1&q=2", {"x": "a", "r": "1", "q": "2"}),
    ("{x}{?q}", "a?z=1", None),
    ("{x}{?q}", "a?q=1&q=2", None),
    ("{x}{?q}", "a?", None),
    ("{x}{?q}", "a?q=a+b", {"x": "a", "q": "a+b"}),
    ("{x}?fixed=1{&y}", "a?fixed=1&y=2", {"x": "a", "y": "2"}),
    ("{+p}{?q}", "a/b?q=1", {"p": "a/b", "q": "1"}),
    ("{+p}{#f}", "a/b#c/d", {"p": "a/b", "f": "c/d"}),
    ("a{?q*}", "a?q=1&q=2", {"q": ["1", "2"]}),
    ("a{?q*}", "a?x=1&y=2", {"q": {"x": "1", "y": "2"}}),
    ("a{?q*}", "a?x=1&x=2", None),
    ("a{?q*}", "a?q=1&x=2", None),
    ("a{?q*}", "a?q=%ff", None),
    ("a{?q*}", "a?%ff=1", None),
    ("a{?q*}", "a?x=..", None),
    ("a{?p,q*}", "a?p=1&q=2", {"p": "1", "q": ["2"]}),
    ("a{?p,q*}", "a?p=1", {"p": "1"}),
    ("a{?p}", "a?p=%ff", None),
    ("a{;p,q}", "a;p=1;q", {"p": "1", "q": ""}),
    ("{x}/{x}", "1/1", {"x": "1"}),
    ("{x}/{x}", "1/2", None),
    ("{x:3}", "abc", {"x": "abc"}),
    ("{x:3}", "abcd", None),
    ("{x:3}", "%ff", None),
    ("{/x:1,x}", "/v/value", {"x": "value"}),
    ("{/x:1,x}", "/w/value", None),
    ("{x:1}/{x:3}", "a/abc", {"x": "abc"}),
    ("{x:1}{?x*}", "a?x=a", None),
]


@pytest.mark.parametrize(("template", "uri", "expected"), MATCHES)
def test_uri_match_returns_values(template: str, uri: str, expected: object) -> None:
    assert UriTemplate(template).match(uri) == expected


ATTACKS = [
    "..",
    ".",
    "...",
    ".. ",
    ". .",
    "%2e%2e",
    "%2E%2E",
    ".%2e",
    "..%2F..%2Fetc%2Fpasswd",
    "%2e%2e%2fetc",
    "a%2Fb",
    "a%2fb",
    "a%5Cb",
    "a\\b",
    "..%5C..",
    "%5C%5Chost%5Cshare",
    "%2Fetc",
    "%00",
    "a%00.txt",
    "a\x00",
    "%0d%0a",
    "a%7f",
    "a%C2%85",
    "%C0%AE%C0%AE",
    "%C0%AF",
    "%E0%80%AF",
    "%ff",
    "%ED%A0%80",
    "\ud800",
    "%",
    "%2",
    "%zz",
    "%u002e",
    "C:",
    "C:secret",
    "c%3Asecret",
    "C%3A%5CWindows",
]


@pytest.mark.spec("resources.path-traversal", "resources.uri-validated")
@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize(
    "template", ["f://x/{v}", "f://x{/v}", "f://x{?v}", "f://x{.v}", "f://x{/v*}", "f://x{?v*}", "f://x/{v}/y"]
)
def test_value_with_path_traversal_does_not_match(template: str, attack: str) -> None:
    head, _, tail = template.partition("{")
    operator = tail[0] if tail[0] in "/?." else ""
    prefix = "v=" if operator == "?" else ""
    assert UriTemplate(template).match(f"{head}{operator}{prefix}{attack}{tail.partition('}')[2]}") is None


PATH_ATTACKS = [
    "..",
    "../a",
    "a/../b",
    "a/..",
    "a/./b",
    "./a",
    "a/%2e%2e/b",
    "a%2F..%2Fb",
    "a\\..\\b",
    "a%5C..%5Cb",
    "/etc",
    "%2Fetc",
    "//host",
]
PATH_ATTACKS += ["\\\\host", "%5Cx", "C:/x", "C:", "c%3A/x", "a/%00", "a/.. /b", "a/.../b", "%C0%AE%C0%AE/a", "a/%ff"]


@pytest.mark.spec("resources.path-traversal")
@pytest.mark.parametrize("attack", PATH_ATTACKS)
def test_reserved_value_with_path_traversal_does_not_match(attack: str) -> None:
    assert UriTemplate("f://x/{+v}").match(f"f://x/{attack}") is None
    assert UriTemplate("f://x{#v}").match(f"f://x#{attack}") is None


@pytest.mark.parametrize("attack", ["%2e%2e", "a/../b", "a/%2e%2e/b", "..%2Fa", "a%2Fb", "a%5Cb", "/etc", "C:/x", ""])
def test_segment_with_path_traversal_does_not_match(attack: str) -> None:
    assert UriTemplate("f://x{/v*}").match(f"f://x/{attack}") is None


def test_value_is_decoded_once() -> None:
    assert UriTemplate("f://{v}").match("f://%252e%252e%252f") == {"v": "%2e%2e%2f"}
    assert UriTemplate("f://{+v}").match("f://a/%252e%252e/b") == {"v": "a/%2e%2e/b"}


@pytest.mark.parametrize(
    "value", ["a..b", "..a", ".hidden", "a.", "v1.2", "1:b", "ab:c", "%", "a b", "ü", "日本", "a+b"]
)
def test_safe_value_matches(value: str) -> None:
    template = UriTemplate("f://x/{v}/y")
    assert template.match(template.expand({"v": value})) == {"v": value}


def test_template_over_limit_raises() -> None:
    UriTemplate("x" * 8192)
    with pytest.raises(LimitExceeded, match="MAX_TEMPLATE_BYTES"):
        UriTemplate("x" * 8193)
    with pytest.raises(LimitExceeded, match="MAX_TEMPLATE_BYTES"):
        UriTemplate("ü" * 4097)
    UriTemplate("/".join("{a}" for _ in range(256)))
    with pytest.raises(LimitExceeded, match="MAX_VARIABLES"):
        UriTemplate("/".join("{a}" for _ in range(257)))


def test_uri_over_limit_raises() -> None:
    template = UriTemplate("{+a}")
    assert template.match("x" * 65536) == {"a": "x" * 65536}
    with pytest.raises(LimitExceeded, match="MAX_URI_BYTES") as caught:
        template.match("x" * 100_000)
    assert (caught.value.observed, caught.value.allowed) == (100_000, 65536)
    with pytest.raises(LimitExceeded):
        template.match("\ud800" * 30_000)


@pytest.mark.parametrize("operator", ["", "+", "#", ".", "/", ";", "?", "&"])
@pytest.mark.parametrize(
    "pattern", ["a", "/", "/a", ".", ",", "a=", "id=1&", ";id=", "%41", "%2e", "%", "?", "/b/", "-b-", "\u00e4"]
)
def test_hostile_uri_matches_in_linear_time(operator: str, pattern: str) -> None:
    # Each template has several expressions, and each URI a mismatch at its end. With backtracking no match would finish.
    text = pattern * (60_000 // len(pattern.encode()))
    for template in (
        f"x{{{operator}id*}}/b/{{y}}-b-{{z}}!",
        f"x{{{operator}id}}/{{a}}/{{b}}/{{c}}/{{d}}!",
        f"x/{{a}}{{{operator or '.'}id*}}",
    ):
        if not template.endswith("!") and operator in "+#":
            continue
        compiled = UriTemplate(template)
        compiled.match(f"x{text}")
        compiled.match(f"x{UriTemplate(f'{{{operator}id*}}', expand_only=True)._parts[0].operator.first}{text}!")  # type: ignore[union-attr]  # one expression


# --- properties ------------------------------------------------------------------------------------------------------


def _is_allowed(text: str) -> bool:
    """Return whether a plain variable can match a value."""
    return UriTemplate("{v}").match(UriTemplate("{v}").expand({"v": text})) is not None


UNICODE = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="/\\"), min_size=1)
PLAIN = UNICODE.filter(lambda text: text.strip(". ") != "" and text[1:2] != ":")
TOKEN = st.from_regex(r"[a-z0-9]{1,6}", fullmatch=True)
SEGMENTS = st.lists(PLAIN, min_size=1, max_size=5)


@given(PLAIN)
def test_value_without_separators_dots_drives_matches(value: str) -> None:
    assert _is_allowed(value)


@given(st.text(st.characters(), max_size=6))
def test_plain_variable_match_is_single_safe_name(raw: str) -> None:
    match = UriTemplate("{v}").match(raw)
    if match:
        value = match["v"]
        assert isinstance(value, str)
        assert "/" not in value
        assert "\\" not in value
        assert value.strip(". ") or "." not in value
        assert all(ord(character) >= 32 for character in value)


@given(st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), PLAIN), st.lists(PLAIN, min_size=1))
def test_match_inverts_expand_for_generated_values(plain: dict[str, str], path: list[str]) -> None:
    template = UriTemplate("x://{a}/p{/path*}?f=1{&b,c}#{d}")
    values: dict[str, str | list[str]] = {**plain, "path": path}
    assume(sum(len(value.encode()) for value in [*plain.values(), *path]) < 5_000)
    assert template.match(template.expand(values)) == values


@st.composite
def templates_with_values(draw: st.DrawFn) -> tuple[str, dict[str, object]]:
    """Return a template for matching, and values for some of its variables."""
    template = "x:"
    values: dict[str, object] = {}
    for index in range(draw(st.integers(1, 4))):
        operator = draw(st.sampled_from(["", "+", ".", "/", ";", "?", "&", "#"]))
        literal = draw(st.sampled_from(["/", "/lit/", "?x=/", "#/"]))
        name = f"v{index}"
        explode = operator in ("/", ";", "?", "&") and draw(st.booleans())
        # Mappings and lists are both exploded; a list has the variable's own name in the URI.
        if explode:
            kinds = (
                SEGMENTS
                if operator == "/"
                else SEGMENTS | st.dictionaries(TOKEN.map(lambda t: f"k{t}"), PLAIN, min_size=1, max_size=3)
            )
            value: object = draw(kinds)
        else:
            value = draw(TOKEN if operator in ("+", "#", ".") else PLAIN)
        template += f"{literal}{{{operator}{name}{'*' if explode else ''}}}"
        if draw(st.booleans()) and operator != "/":
            template += f"{literal}end"
        values[name] = value
    return template, values


@given(templates_with_values())
def test_match_inverts_expand_for_generated_template(case: tuple[str, dict[str, Value | None]]) -> None:
    source, values = case
    try:
        template = UriTemplate(source)
    except AmbiguousTemplate:
        assume(False)
        raise
    unambiguous = not any(f"/{{/v{index}" in source or f"/{{/v{index}*" in source for index in range(4))
    assume(unambiguous)
    assert template.match(template.expand(values)) == values


@given(st.text(max_size=60), st.text(max_size=60))
def test_generated_text_is_template_or_raises(source: str, uri: str) -> None:
    try:
        template = UriTemplate(source)
    except InvalidTemplate:
        return
    template.match(uri)


@given(st.text("abc/{}?&;.,+#*:1=", max_size=30), st.text("abc/?&;.,+#=%2e", max_size=30))
def test_match_has_only_known_variables(source: str, uri: str) -> None:
    try:
        template = UriTemplate(source)
    except InvalidTemplate:
        return
    match = template.match(uri)
    assert match is None or set(match) <= set(template.variables)
