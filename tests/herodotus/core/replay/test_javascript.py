"""Is of a script changed what must be, and nothing else?"""

import time
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crawler.core.javascript import Token, tokens
from herodotus.core.replay import Flag, Label, NamedSite, Names, ReplayContext, javascript, rewriter_for
from herodotus.core.replay.javascript import (
    ScriptRewriter,
    for_worker,
    led_script,
    told_outermost,
    told_where,
)

DATE = "20260509063412"
NAMES = Names(scheme="http", suffix="localhost:5484", portals=("http://localhost:5484",))
HERE = f"http://{DATE}-s-a-example.localhost:5484"
THERE = f"http://{DATE}-s-b-example.localhost:5484"
CONTEXT = ReplayContext(
    page_url="https://a.example/x/y",
    timestamp=DATE,
    flag=Flag.MAIN,
    site=NamedSite(names=NAMES, label=Label(date=DATE, origin="https://a.example")),
)
F = "...(globalThis.__hdpm||Array.of)("
IMPORTED = "(globalThis.__hdi||String)("


def led(source: str) -> str:
    return led_script(source.encode(), lambda address: address.replace(b"https://b.example", b"LED")).decode()


@pytest.mark.parametrize(
    ("source", "after"),
    [
        ('import a from "https://b.example/m";', 'import a from "LED/m";'),
        ("import'https://b.example/m'", 'import"LED/m"'),
        ('export*from"https://b.example/m"', 'export*from"LED/m"'),
        ("import ( /* why */ `https://b.example/m` )", 'import ( /* why */ "LED/m" )'),
        ('import(\n"https:\\/\\/b.example/m", {with: 1})', 'import(\n"LED/m", {with: 1})'),
        ('w.postMessage(a, "https://b.example")', f'w.postMessage({F}a, "https://b.example"))'),
        ("w . postMessage ( f(a, b), [c] )", f"w . postMessage ({F} f(a, b), [c] ))"),
        ("w.postMessage(x.postMessage(a, b), c)", f"w.postMessage({F}x.postMessage({F}a, b)), c))"),
        ("w?.postMessage(...all)", f"w?.postMessage({F}...all))"),
        ("postMessage(a, b)", f"postMessage({F}a, b))"),
        ("import(x + 'https://b.example')", "import((globalThis.__hdi||String)(x + 'https://b.example'))"),
        ("import(`./${import(a)}`)", f"import({IMPORTED}`./${{import({IMPORTED}a))}}`))"),
        ("port.postMessage(f(')'), `${g(1)},${h}`, [b])", f"port.postMessage({F}f(')'), `${{g(1)}},${{h}}`, [b]))"),
    ],
)  # fmt: skip
def test_an_address_of_a_module_and_the_target_of_a_message_are_led(source: str, after: str) -> None:
    assert led(source) == after


@pytest.mark.parametrize(
    "source",
    ["import a from './m'", "import('./m')", "// import 'https://b.example/m'", "'import \"https://b.example/m\"'",
     "/import 'https:\\/\\/b.example'/.test(x)", "var from = 'https://b.example/m'", "x = {from: 'https://b.example/'}",
     "w.postMessage(a)", "w.postMessage(f(a, b))", "w.postMessage({a: 1, b: 2})", "w.postMessage()",
     "class A { postMessage(a, b) {} }", "function postMessage(a, b) { return a }", "x = {postMessage(a, b) { }}",
     "'w.postMessage(a, b)'", "Array.from('https://b.example', f)", "x.import(y)", "import()", "import('./m' /* x */)",
     "x = {import(a) { }}", "import.meta.url", "location = '/x'; location.assign('/x')"],
)  # fmt: skip
def test_everything_else_stays(source: str) -> None:
    assert led(source) == source


@given(st.text(max_size=200), st.binary(max_size=50))
@example("x.postMessage((", b"(((")
@example("x.postMessage(a,", b"")
@example("import(`https://b.example/${", b"}")
def test_whatever_it_is_only_whole_pieces_are_put_in(text: str, more: bytes) -> None:
    """What was put in is taken out again, and the rest is as it was."""
    source = b"x.postMessage(1,2);" + text.encode("utf-8", "surrogatepass") + more
    after = led_script(source, lambda address: address)
    assert after.count(F.encode()) >= 1 or b"`" in source or after == source
    assert len(after) - len(source) == (len(F) + 1) * (after.count(F.encode()) - source.count(F.encode()))


@pytest.mark.parametrize(
    ("source", "before"),
    [
        ("onmessage = f", 'importScripts("C");'),
        ("'use strict'; onmessage = f", '"use strict";importScripts("C");'),
        ("import a from './m';", 'import "C";'),
        ("// a\nexport const a = 1", 'import "C";'),
        ("var a=1;import{b}from'./b'", 'import "C";'),
        ("import('./m')", 'importScripts("C");'),
        ("import.meta.url", 'importScripts("C");'),
    ],
)
def test_a_worker_has_our_script_first_in_its_own_way(source: str, before: str) -> None:
    assert for_worker(source.encode(), "C").decode() == before + source


def rewritten(source: bytes, kind: str, flag: Flag = Flag.SCRIPT, *, is_worker: bool = False) -> bytes:
    context = ReplayContext(
        page_url=CONTEXT.page_url, timestamp=DATE, flag=flag, site=CONTEXT.site, is_worker=is_worker
    )
    rewriter = rewriter_for(kind, flag, context)
    return (
        source
        if rewriter is None
        else rewriter.feed(source[:9]) + rewriter.feed(source[9:]) + rewriter.close()
    )


def test_scripts_are_led_at_a_label_in_files_and_in_pages() -> None:
    source = b'import "https://b.example/m";'
    after = f'import "{THERE}/m";'.encode()
    assert rewritten(source, "text/javascript") == after
    assert rewritten(source, "application/x-javascript; charset=utf-8") == after
    assert rewritten(source, "") == after
    assert rewritten(source, "application/json") == source
    assert rewritten(source, "text/javascript", Flag.EMBEDDED) == source
    worker = rewritten(source, "text/javascript", is_worker=True)
    assert worker == f'import "{HERE}/_hd/client.js";'.encode() + after
    for kind in (b"", b" type=module", b" type='text/javascript'"):
        page = rewritten(
            b"<head></head><script" + kind + b">" + source + b"</script>", "text/html", Flag.MAIN
        )
        assert page.endswith(after + b"</script>")
    data = b"<head></head><script type=text/template>" + source + b"</script>"
    assert rewritten(data, "text/html", Flag.MAIN).endswith(source + b"</script>")
    unclosed = rewritten(b"<head></head><script>" + source, "text/html", Flag.MAIN)
    assert unclosed.endswith(after)


def test_a_script_that_is_too_long_goes_out_as_it_came() -> None:
    long = b'import "https://b.example/m";' + b" " * (2 * 2**20)
    rewriter = ScriptRewriter(lambda _: b"LED")
    assert rewriter.feed(long) + rewriter.feed(b"1") + rewriter.close() == long + b"1"


BOXED = ReplayContext(
    page_url="https://a.example/x/y.js",
    timestamp=DATE,
    flag=Flag.SCRIPT,
    portal_origin="http://192.0.2.1:5484",
)
L = "...(globalThis.__hdl||Array.of)("
OWN = "https://a.example/x/y.js"
ARCHIVE = f"http://192.0.2.1:5484/web/{DATE}js_/https://"


@pytest.mark.parametrize(
    ("source", "after"),
    [
        ("import a from './m'", f'import a from "{ARCHIVE}a.example/x/m"'),
        ("import '../m'; import '/n'", f'import "{ARCHIVE}a.example/m"; import "{ARCHIVE}a.example/n"'),
        ("export * from 'https://b.example/m'", f'export * from "{ARCHIVE}b.example/m"'),
        ("import('./m')", f'import("{ARCHIVE}a.example/x/m")'),
        ("import(m)", f'import((globalThis.__hdi||String)(m,"{OWN}"))'),
        ("import(m, {with: n})", "import(m, {with: n})"),
        ("import vue from 'vue'; import('vue/x')", "import vue from 'vue'; import('vue/x')"),
        ("new URL('i.png', import . meta.url)", f"new URL('i.png', \"{OWN}\")"),
        ("import.meta.env; x.import.meta.url", "import.meta.env; x.import.meta.url"),
        ("w.postMessage(a, '*')", f"w.postMessage({F}a, '*'))"),
        ("location = '/x'", "globalThis.__hdlocation = '/x'"),
        ("if (a) location=b", "if (a) globalThis.__hdlocation=b"),
        ("if(a){location=b}", "if(a){globalThis.__hdlocation=b}"),
        ("a&&window.location=b", "a&&window.__hdlocation=b"),
        ("document . location = b", "document . __hdlocation = b"),
        ("location.href = a + b", "location.__hdhref = a + b"),
        ("self.location.href='/x'", "self.location.__hdhref='/x'"),
        ("location.assign('/x')", f"location.assign({L}'/x'))"),
        ("window.location.replace(f(')'))", f"window.location.replace({L}f(')')))"),
    ],
)  # fmt: skip
def test_in_the_sandbox_a_script_is_told_where_it_was_and_goes_where_it_would(
    source: str, after: str
) -> None:
    rewriter = rewriter_for("text/javascript", Flag.SCRIPT, BOXED)
    assert rewriter is not None
    assert (rewriter.feed(source.encode()) + rewriter.close()).decode() == after


@pytest.mark.parametrize(
    "source",
    ["var location = a; location = b", "function f(location) { location = b }", "({location = 1}) => location",
     "let a, location; location = b", "location => { location = b }", "const {a, location} = b; location = c",
     "location == a; location === b; location => c", "x.location = a", "this.location.href = a", "x.location.assign(a)",
     "parent.location.href = a", "frames[0].location = a",
     "mylocation = a; location2 = b", "'location = a'", "f(location = a)"],
)  # fmt: skip
def test_a_location_that_may_be_another_one_stays(source: str) -> None:
    rewriter = rewriter_for("text/javascript", Flag.SCRIPT, BOXED)
    assert rewriter is not None
    assert (rewriter.feed(source.encode()) + rewriter.close()).decode() == source


def test_what_was_found_in_a_long_script_is_kept_and_led_for_each_page_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = b"import('./m'); new URL('x', import.meta.url);" + b"var a = 1;" * 1_000
    read: list[int] = []

    def counted(text: str, words: frozenset[str]) -> Iterator[Token]:
        read.append(len(text))
        return tokens(text, words)

    monkeypatch.setattr(javascript, "tokens", counted)
    for number in (b"1", b"2"):
        after = led_script(source, number.__add__, b"https://a.example/" + number)
        assert after.startswith(
            b'import("%s./m"); new URL(\'x\', "https://a.example/%s");' % (number, number)
        )
    assert read == [len(source)]
    led_script(source, lambda address: address)  # at a label something else must be led
    assert len(read) == 1
    led_script(source.replace(b"'./m'", b"m"), lambda address: address)
    assert len(read) == 2


def test_scripts_that_are_known_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(javascript, "KEPT_MAX", 3)
    known: dict[tuple[bytes, bool], tuple[object, ...]] = {}
    monkeypatch.setattr(javascript, "_kept", known)
    for number in range(10):
        led_script(b"import(a);" + b"%d;" % number * 10_000, lambda address: address)
        assert 0 < len(known) <= 3
    led_script(b"import(a);" * 2_000, lambda address: address)
    assert all(len(places) <= 1_000 for places in known.values())


def test_a_hostile_script_costs_no_more_than_its_length() -> None:
    for piece in (
        "var a ",
        "function f(",
        "location=",
        "import(",
        "x.postMessage(",
        "(location",
        "import.meta.url ",
    ):
        started = time.process_time()
        led_script((piece * (400_000 // len(piece))).encode(), lambda address: address, OWN.encode())
        assert time.process_time() - started < 5


WHERE = "(globalThis.__hdwhere||location)"


@pytest.mark.parametrize(
    "source",
    [
        "@.href == a", "a = @.href.replace(b, c)", "if (@ . hostname !== 'a.example') b()", "@.origin + '/a'",
        "a = @.protocol + '//' + @.host;", "f(@.port)", "return @.href", "a;\n@.href.indexOf(b) > 0 && c()",
        "a =\n  @.href", "a = {b: @.href}", "a = b ? @.host : c",
    ],
)  # fmt: skip
@pytest.mark.parametrize("own", ["location", "window.location", "document . location", "self.location"])
def test_a_script_that_asks_where_it_is_is_told_the_original_address(source: str, own: str) -> None:
    written, told = source.replace("@", own), source.replace("@", WHERE)
    assert told_where(written.encode()).decode() == told
    assert led(written) == told


@pytest.mark.parametrize(
    "source",
    [
        "location.href = a", "location.href += a", "window.location.host=a", "location.hostnames", "x.location.href",
        "this.location.href", "location.pathname", "mylocation.href", "location.reload()", "location.href++",
        "parent.location.href == location.href", "if (top.location.host !== location.host) a()",
        "opener.location.origin === location.origin", "function f(location) { return location.href }",
        "let {location} = router; a = location.href", "f()\nlocation.href.replace(a)", "f\n  window.location.href",
    ],
)  # fmt: skip
def test_where_else_something_is_stays(source: str) -> None:
    assert told_where(source.encode()).decode() == source


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "piece", ["location.href;", "location", "location.href=", "window .location.", " ", "\nlocation.href"]
)
def test_a_hostile_script_that_asks_where_it_is_costs_no_more_than_its_length(piece: str) -> None:
    told_where((piece * (1_000_000 // len(piece))).encode())


OUTERMOST = "(globalThis.__hdtop||globalThis.top)"


@pytest.mark.parametrize(
    "source",
    [
        "if (@ != self) @.location = self.location", "if(@!==window.self){", "self === @&&a", "if (window==@) {",
        "window!=@)", "@.location!=self.location", "if(@.location.href!=location.href)", "parent == @",
        "document.location.host === @.location.host",
    ],
)  # fmt: skip
@pytest.mark.parametrize("top", ["top", "window.top", "self . top"])
def test_a_script_that_compares_top_with_its_window_is_told_of_the_archived_one(
    source: str, top: str
) -> None:
    written = source.replace("@.location =", "top.location =").replace("@", top)
    after = source.replace("@.location =", "top.location =").replace("@", OUTERMOST)
    assert told_outermost(written.encode()).decode() == after
    assert led(written) == after


@pytest.mark.parametrize(
    "source",
    [
        "top === 0", "if (top !== this.y)", "this.top !== this.bottom", "style.top == window.y", "top == selfish",
        "a.self == top", "self == top.frames", "top == window(1)", "e.top === e", "top != self.pageYOffset",
        "top = self",
        "location.top == top", "stop == self", "self == topmost", "a.window == top", "top <= self",
    ],
)  # fmt: skip
def test_another_top_stays(source: str) -> None:
    assert told_outermost(source.encode()).decode() == source


@pytest.mark.timeout(20)
@pytest.mark.parametrize("piece", ["top ==", "window . ", "!= ", "top.location    ", "self == ", "top", " "])
def test_a_hostile_script_that_asks_for_top_costs_no_more_than_its_length(piece: str) -> None:
    told_outermost((piece * (1_000_000 // len(piece)) + "top == ").encode())
