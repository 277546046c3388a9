"""What a script asks for is found by rules that know how scripts ask."""

import pytest

from crawler.core.links import script_links
from crawler.core.scripts import ScriptReference, script_references

SCRIPT = "https://a.example/assets/main.js"
PAGE = "https://a.example/docs/page.html"


def found(source: str) -> list[str]:
    links = script_links(source.encode(), SCRIPT, page=PAGE).links
    assert all(link.is_embedded for link in links)
    return [link.url.removeprefix("https://a.example") for link in links]


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


def test_an_address_longer_than_any_is_none() -> None:
    assert list(script_references(f"import './{'a' * 3_000}'")) == []
    assert list(script_references("import './a'")) == [ScriptReference("./a")]
