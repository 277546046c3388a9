"""What a script asks for is found by rules that know how scripts ask."""

import pytest

from crawler.core.link import Rule
from crawler.core.links import json_links, script_links
from crawler.core.scripts import DOUBTFUL_MAX, PageNames, ScriptReference, read_import_map, script_references

SCRIPT = "https://a.example/assets/main.js"
PAGE = "https://a.example/docs/page.html"


def found(source: str, *, is_doubted: bool = False) -> list[str]:
    links = script_links(source.encode(), SCRIPT, page=PAGE).links
    assert all(link.is_embedded for link in links)
    return [
        link.url.removeprefix("https://a.example") for link in links if is_doubted or not link.is_doubtful
    ]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import {a, b as c} from './a.js'; import d from \"../d.js\"", ["/assets/a.js", "/d.js"]),
        ("import'./side.js'", ["/assets/side.js"]),
        ("export * from '/e.js'", ["/e.js"]),
        ("import e from 'vue'", []),
        ("import('./f.js').then(g)", ["/assets/f.js"]),
        ("import(/* name */ `./g.js`)", ["/assets/g.js"]),
        ("import('./h.js', {with: {type: 'json'}})", ["/assets/h.js"]),
        ("import('./lang/' + name)", []),
        ("import(`./${name}.js`)", []),
        ("new URL('i.png', import.meta.url)", ["/assets/i.png"]),
        ("new URL('i.png', location)", []),
        ("new Worker('w.js'), new SharedWorker(`/v.js`, 'n')", ["/docs/w.js", "/v.js"]),
        ("new Worker(new URL('./u.js', import.meta.url))", ["/assets/u.js"]),
        ("importScripts('x.js')", ["/assets/x.js"]),
        ("// import './no.js'\n'import \"./no.js\"'", []),
        ("api.import('./no.js')", []),
        ("import z from 'https://b.example/z.js'", ["https://b.example/z.js"]),
    ],
)
def test_what_a_script_imports_and_loads_is_found(source: str, expected: list[str]) -> None:
    assert found(source) == expected


WEBPACK = """(()=>{var r={};r.u=e=>"js/"+({7:"map"}[e]||e)+"."+{7:"ab12",9:"cd34"}[e]+".js";
r.miniCssF=function(e){return"css/"+e+".css"};r.l=(e,t)=>{};%s})()"""


def test_the_table_of_a_webpack_runtime_names_all_its_chunks() -> None:
    names = ["js/map.ab12.js", "js/9.cd34.js"]
    assert found(WEBPACK % 'r.p="/static/"') == [f"/static/{name}" for name in names]
    assert found(WEBPACK % 'r.p=""') == [f"/docs/{name}" for name in names]
    links = script_links((WEBPACK % "r.p=s+'../'").encode(), SCRIPT, page=PAGE).links
    assert [(link.url, Rule(link.rule), link.is_doubtful) for link in links if "cd34" in link.url] == [
        ("https://a.example/js/9.cd34.js", Rule.CHUNKS, False),
        ("https://a.example/assets/js/9.cd34.js", Rule.CHUNKS_BESIDE, True),
    ]
    old = 'n.e=function(e){t.src=function(e){return r.p+""+({}[e]||e)+"."+{0:"aa",1:"bb"}[e]+".js"}(e)}'
    assert found(old) == ["/assets/0.aa.js", "/assets/1.bb.js"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("const __vite__mapDeps=(i,m=__vite__mapDeps,d=(m.f||(m.f=['assets/a.js','./b.css'])))=>i;", 2),
        ("f(__vite__mapDeps([0,1]))", 0),
    ],
)
def test_the_list_of_vite_names_what_it_preloads(source: str, expected: int) -> None:
    assert found(source) == ["/assets/a.js", "/assets/b.css"][:expected]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("define(['./a', 'text!b.html', 'require'], f)", ["/assets/a.js", "/assets/b.html"]),
        ("define('me', ['a/b'], f)", ["/assets/a/b.js"]),
        ("require(['c.js']); require('no')", ["/assets/c.js"]),
        (
            "x = '/img/a.png' + 'no.such' + \"./data.json?v=1\"",
            ["/assets/data.json?v=1", "/img/a.png", "/docs/data.json?v=1"],
        ),
        ("x = ['a b.png', 'http://b.example/c.png', '.png', '" + "a" * 250 + ".png']", []),
    ],
)
def test_what_only_looks_like_a_file_is_doubtful(source: str, expected: list[str]) -> None:
    assert found(source) == []
    assert found(source, is_doubted=True) == expected


def test_a_script_has_few_tries_of_doubtful_strings() -> None:
    names = [f"p{n}.json" for n in range(200)]
    assert len(found(f"x = {names}", is_doubted=True)) == DOUBTFUL_MAX


def test_rules_that_are_switched_off_find_nothing() -> None:
    source = b"import './a.js'; new Worker('w.js'); x = '/i.png'"
    rules = [Rule.IMPORTS, Rule.WORKERS, Rule.STRINGS]
    assert [link.rule for link in script_links(source, SCRIPT).links] == rules
    for rule in rules:
        rest = [link.rule for link in script_links(source, SCRIPT, without=[rule]).links]
        assert rest == [one for one in rules if one is not rule]


def test_json_names_pictures_of_a_manifest_and_doubtful_files() -> None:
    said = b'{"icons": [{"src": "i\\/a.png"}], "start_url": "/", "data": ["b.json", "no"]}'
    links = json_links(said, PAGE).links
    assert [(link.url, Rule(link.rule)) for link in links] == [
        ("https://a.example/docs/i/a.png", Rule.MANIFESTS),
        ("https://a.example/docs/b.json", Rule.JSON),
    ]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"imports": 3}', "[" * 100_000, '{"imports": {"a": 1}}'])
def test_an_import_map_that_is_none_maps_nothing(text: str) -> None:
    assert read_import_map(text) == {}


def test_an_address_longer_than_any_is_none() -> None:
    assert list(script_references(f"import './{'a' * 3_000}'")) == []
    assert list(script_references("import './a'")) == [ScriptReference("./a", Rule.IMPORTS)]


REQUIRE = """require.config({%s paths: {jquery: '../lib/jquery', 'ui': "https://cdn.example/ui", vs: '/vs'}});
require(['jquery', 'ui/dialog', 'views/app', './near', 'vs/css!vs/main', 'text!a.html', 'exports']);"""


def modules(source: str, **named: str) -> list[str]:
    links = script_links(source.encode(), SCRIPT, page=PAGE, names=PageNames(named)).links
    assert {link.rule for link in links} == {Rule.MODULES}
    return [link.url.removeprefix("https://a.example") for link in links]


def test_modules_of_amd_are_found_by_the_paths_of_their_configuration() -> None:
    paths = ["https://cdn.example/ui.js", "/vs.js", "https://cdn.example/ui/dialog.js"]
    assert sorted(modules(REQUIRE % "")) == sorted(
        [
            *paths,
            "/lib/jquery.js",
            "/assets/views/app.js",
            "/assets/near.js",
            "/vs/main.css",
            "/assets/a.html",
        ]
    )
    based = modules(REQUIRE % "baseUrl: 'js/',")
    assert {"/docs/lib/jquery.js", "/docs/js/views/app.js", "/assets/near.js", "/docs/js/a.html"} <= set(
        based
    )


def test_what_a_configuration_named_is_known_in_the_modules_that_it_leads_to() -> None:
    first = script_links(
        (REQUIRE % "").encode(), SCRIPT, page=PAGE, names=PageNames({"amd!": "https://a.example/js/"})
    )
    named = dict(first.names.modules)
    assert named["amd!jquery"] == "https://a.example/lib/jquery"
    later = modules("define(['jquery', 'views/list', './near'], f)", **named)
    assert later == ["/lib/jquery.js", "/js/views/list.js", "/assets/near.js"]


def test_a_string_that_looks_like_a_file_is_looked_for_at_three_places_and_no_more_often_than_bounded() -> (
    None
):
    source = b"get('learn.json'); get('./own.json'); get('/root.json'); say('Vue.js')"
    links = script_links(source, SCRIPT, page=PAGE).links
    assert {(link.url.removeprefix("https://a.example"), Rule(link.rule)) for link in links} == {
        ("/docs/learn.json", Rule.STRINGS), ("/assets/learn.json", Rule.STRINGS_BESIDE),
        ("/learn.json", Rule.STRINGS_ROOT), ("/docs/own.json", Rule.STRINGS), ("/assets/own.json", Rule.STRINGS_BESIDE),
        ("/root.json", Rule.STRINGS), ("/docs/Vue.js", Rule.STRINGS),
    }  # fmt: skip
    many = "".join(f"get('{number}.json');" for number in range(100))
    assert len(script_links(many.encode(), SCRIPT, page=PAGE).links) == DOUBTFUL_MAX


@pytest.mark.timeout(20)
def test_a_long_map_and_many_names_are_read_in_time() -> None:
    """Names are looked up by what they begin with. When all were sorted again for each, this took minutes."""
    names = {f"name{number}/": f"/{number}/" for number in range(2_000)}
    source = "import 'other/a';" * 100_000
    assert list(script_references(source, names=PageNames(names))) == []


def test_pictures_by_code_points_take_no_tries_from_others() -> None:
    source = "e = {a: 'unicode/1f9ee.png?v8', b: '1f1e6-1f1eb.svg', c: 'unicode/260e-fe0f.png'}; home = 'README.md'"
    assert set(found(source, is_doubted=True)) == {"/docs/README.md", "/assets/README.md", "/README.md"}
    assert "/assets/5d5d9eef.svg" in found("x = '5d5d9eef.svg'", is_doubted=True)


def test_the_navigation_of_doxygen_and_pictures_in_markup_are_found() -> None:
    tree = 'var NAVTREEINDEX =\n[\n"annotated.html",\n"files.html"\n];'
    assert found(tree) == ["/assets/navtreeindex0.js", "/assets/navtreeindex1.js"]
    source = """show('<img src="' + path + 'on.png" title="x"/>'); show('<img src="img/b.png"><a href="c.html">')"""
    links = script_links(source.encode(), SCRIPT, page=PAGE).links
    assert {link.url for link in links if link.rule == Rule.STRINGS} == {
        "https://a.example/docs/on.png",
        "https://a.example/docs/img/b.png",
    }
