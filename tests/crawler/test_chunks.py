"""A webpack runtime's table is read by descent, and one that is made to be endless is not."""

import time

import pytest

from crawler.core.chunks import KEYS_MAX, NAMES_MAX, chunk_names


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ('"js/"+({7:"map",1e3:"x"}[e]||e)+"."+{7:"a",1000:"b"}[e]+".js"', ["js/map.a.js", "js/x.b.js"]),
        ('(e===179?"main":e)+"."+{179:"aa",2:"bb"}[e]+".js"', ["main.aa.js", "2.bb.js"]),
        ('e===1?"a.js":2===e?"b.js":{3:"c"}[e]+".js"', ["a.js", "b.js", "c.js"]),
        ('{"x-y":"p",z:"q"}[e]+".js"', ["p.js", "q.js"]),
        ('{1:"a"}[e]+{2:"b"}[e]+".js"', []),
        ('""+e+".js"', []),
        ('r.h(e)+{1:"a"}[e]', []),
        ('{1:"a"}[e', []),
        ("", []),
    ],
)
def test_names_are_those_that_the_script_would_make(expression: str, names: list[str]) -> None:
    assert chunk_names(f"u=e=>{expression};", 5, "e") == names


def test_any_name_is_the_variable_where_none_is_known() -> None:
    assert chunk_names('return i.p+"s/"+({}[t]||t)+{0:"a"}[t]}', 7) == ["s/0a"]


def _table(keys: int) -> str:
    return "{" + ",".join(f'{key}:"h{key}"' for key in range(keys)) + "}[e]"


def test_a_large_table_has_as_many_names_as_may_be() -> None:
    assert len(chunk_names(_table(NAMES_MAX // 2), 0, "e")) == NAMES_MAX // 2
    assert len(chunk_names(_table(KEYS_MAX), 0, "e")) == NAMES_MAX
    assert chunk_names(_table(KEYS_MAX + 1), 0, "e") == []


HOSTILE = {
    "brackets": "(" * 100_000,
    "objects": "{1:" * 100_000,
    "sums": '"a"+' * 200_000,
    "choices": "1?" * 200_000,
    "a chain": "1===e?1:" * 200_000,
    "keys times parts": _table(9_000) + '+""' * 4_000,
    "long names": _table(9_000) + f'+"{"a" * 199}"' * 90,
    "long constants": f'{{1:"{"a" * 300}"}}[e]',
    "a number": "9" * 100_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_tables_make_no_names_and_take_no_time(name: str) -> None:
    began = time.process_time()
    assert chunk_names(HOSTILE[name], 0, "e") == []
    assert time.process_time() - began < 10.0
