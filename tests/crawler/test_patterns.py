"""What a script makes of parts is guessed from what the page, and the script itself, say in plain words."""

import time

import pytest

from crawler.core.link import Rule, Yield, rests
from crawler.core.links import html_links, script_links
from crawler.core.patterns import GUESSES_MAX, map_tiles
from crawler.core.scripts import PageNames, script_references

HOME = "https://cdn.example/lib/"
PAGE = "https://a.example/docs/page.html"
CPU_S_MAX = 10.0
"""Of a linear reader a hundredth, also on a slow machine; of a quadratic one hours."""


def guessed(source: str, *words: str, script: str = f"{HOME}main.js", home: str = "") -> list[str]:
    """In the home of the library."""
    links = script_links(source.encode(), script, page=PAGE, names=PageNames(words=words, home=home)).links
    assert all(link.is_doubtful for link in links)
    return [link.url.removeprefix(HOME) for link in links if link.rule == Rule.PATTERNS]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("load(`parts/${tag}/${tag}.js`)", ["parts/default/default.js", "parts/gear/gear.js"]),
        ("load(`${base}/icons/${name}.svg`)", ["icons/default.svg", "icons/gear.svg"]),
        ("load(base + 'lang/' + name + '.js')", ["lang/default.js", "lang/gear.js"]),
        ("load('prism-' + name + '.js', 'x/prism-' + name + '.js')", [
            "prism-default.js", "x/prism-default.js", "prism-gear.js", "x/prism-gear.js",
        ]),
        ("load(`a/${one}/${two}.js`)", []),
        ("say('a/' + name + ' is not there.js')", []),
        ("say('<a href=a/' + name + '.html>')", []),
        ("say('a/b' + '.js')", []),
        ("load('a/' + name(1) + '.js')", []),
    ],
)  # fmt: skip
def test_a_hole_is_filled_with_words_of_the_page(source: str, expected: list[str]) -> None:
    assert guessed(source, "gear") == expected


def test_a_hole_may_be_a_constant_a_setting_or_the_suffix_of_the_script() -> None:
    assert guessed("o = {ext: '.md'}; get('_sidebar' + o.ext)") == ["_sidebar.md"]
    assert guessed("o = {ext: '.md'}; p = {ext: '.txt'}; get('_sidebar' + o.ext)") == []
    plugin = "option('theme', {default: 'silver'}); load(`themes/${n}/theme${s}.js`)"
    assert guessed(plugin, script=f"{HOME}all.min.js")[0] == "themes/silver/theme.min.js"
    assert guessed(plugin)[0] == "themes/silver/theme.js"


def test_a_hole_may_be_what_a_bundler_calls_its_parts() -> None:
    source = "start([['p-40ae2aa7', [['my-icon']]], ['p-other', []]]); load(`./${part}.entry.js`)"
    assert guessed(source) == ["default.entry.js", "p-40ae2aa7.entry.js"]


def test_parts_that_one_script_names_are_loaded_by_another() -> None:
    first = script_links(b"import{a}from'./p-e298ede3.js';a(['p-748a23b9'])", f"{HOME}main.js", page=PAGE)
    assert first.names.words == ("p-748a23b9",)
    url = f"{HOME}p-e298ede3.js"
    second = script_links(b"load(`./${part}.entry.js`)", url, page=f"{HOME}main.js", names=first.names)
    assert f"{HOME}p-748a23b9.entry.js" in {link.url for link in second.links}


def test_files_behind_a_placeholder_lie_in_folders_that_the_script_names() -> None:
    module = "m = {'a/fonts/b.js': 1, 'a/fonts/b': 2}"
    source = f"css = 'url(\"%%URL%%/Main.woff\")'; at = resolve('output/fonts/woff-v2'); {module}"
    assert guessed(source) == ["output/fonts/woff-v2/Main.woff"]


def test_pictures_without_a_folder_are_looked_for_where_pictures_lie() -> None:
    assert guessed("o = {shadow: 'marker-shadow.png', 'a/b.png': 1}") == ["images/marker-shadow.png"]


def test_parts_of_a_library_ask_for_files_where_its_first_script_lies() -> None:
    first = script_links(b"import './chunks/a.js'", f"{HOME}main.js?v=1", page=PAGE)
    assert first.names.home == HOME
    inner = script_links(
        b"load(`icons/${n}.svg`)", f"{HOME}chunks/a.js", page=f"{HOME}main.js", names=first.names
    )
    assert [link.url for link in inner.links if link.rule == Rule.PATTERNS] == [f"{HOME}icons/default.svg"]


def test_words_are_what_elements_code_and_scripts_of_the_page_say() -> None:
    page = b"""<html lang=de><script src=/x.js></script><my-rating name="gear" title=no></my-rating>
        <code class='language-rust'></code>
        <script>start({plugins: 'lists link', mode: "ace/theme/twilight", text: 'this is: no word!'})</script>"""
    of_scripts = ("lists", "link", "ace", "theme", "twilight")
    assert html_links(page, PAGE).names.words == ("rating", "my-rating", "gear", "de", "rust", *of_scripts)
    assert html_links(page, PAGE, without=[Rule.PATTERNS]).names.words == of_scripts
    assert html_links(page.replace(b"<script", b"<p"), PAGE).names.words == ()


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("map.setView([51.505, -0.09], 13); L.tileLayer('/t/{z}/{x}/{y}{r}.png')", "/t/13/4093/2724.png"),
        ("new Map({center: [51.505, -0.09], zoom: 13, url: 'https://{s}.t.example/{z}/{x}/{y}.png'})",
         "https://b.t.example/13/4093/2724.png"),
        ("new maplibregl.Map({center: [-0.09, 51.505], zoom: 13}); s = '/t/{z}/{x}/{y}.png'", "/t/13/4093/2724.png"),
        ("map.setView([0, 0], 0); L.tileLayer('t/{z}/{x}/{y}.png')", "t/0/0/0.png"),
    ],
)  # fmt: skip
def test_the_tiles_of_a_map_are_those_that_a_window_shows(said: str, expected: str) -> None:
    """Numbers by hand: x = (lon + 180) / 360 * 2^z, y by Mercator; subdomains by their sum."""
    tiles = list(map_tiles(said))
    assert tiles[0] == expected
    assert len(tiles) == len(set(tiles))
    assert len(tiles) == (1 if "/0/0/0" in expected else 24)


@pytest.mark.parametrize(
    "said",
    ["t('{z}/{x}/{y}.png')", "setView([1, 2], 3)", "setView([91, 0], 3); '{z}/{x}.png'",
     "setView([1, 2], 3); t('{z}/{x}/{y}/{key}.png')", "setView([1, 2], 99); t('{z}/{x}/{y}.png')"],
)  # fmt: skip
def test_a_map_of_which_not_all_is_said_has_no_tiles(said: str) -> None:
    assert list(map_tiles(said)) == []


def test_guesses_are_bounded_and_their_rule_rests_later_than_others() -> None:
    source = "".join(f"load(`p{n}/${{name}}.js`);" for n in range(200))
    assert len(guessed(source, *(f"w{n}" for n in range(32)))) == GUESSES_MAX
    assert not rests(Rule.PATTERNS, {Rule.PATTERNS: Yield(63, 0, 63)})
    assert rests(Rule.PATTERNS, {Rule.PATTERNS: Yield(64, 0, 64)})
    assert rests(Rule.STRINGS, {Rule.STRINGS: Yield(16, 0, 16)})


@pytest.mark.parametrize(
    "unit",
    [
        "'a/'+b+",
        "`a/${b}",
        "`${b}",
        "'/'+",
        "x.y.z+'a/b.js'",
        "theme:'",
        "%%A%%/a",
        "default",
        "'a/b', ",
        "<a-b ",
        " language-",
        "{z}'",
    ],
)
def test_hostile_scripts_and_pages_take_no_more_time_than_others(unit: str) -> None:
    source = "load(`themes/${n}/a.js`);o.name+'a/'+o.ext;" + unit * (2**19 // len(unit))
    began = time.process_time()
    list(script_references(source, names=PageNames(words=("a", "b"))))
    html_links(b"<script></script>" + source[: 2**18].encode(), PAGE)
    list(map_tiles(source))
    assert time.process_time() - began < CPU_S_MAX
