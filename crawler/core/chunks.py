"""Which files may a webpack runtime load? The names that its table makes, one for each chunk.

The runtime has one expression that makes a file's name of a chunk's number, with the names and hashes of all chunks in
objects: `e => "js/" + ({7: "map"}[e] || e) + "." + {7: "ab12", 9: "cd34"}[e] + ".js"`. It is read by descent into
functions of the number and asked for each key that stands in it. Literals, `{…}[e]`, `||`, `===`, `?:`, `+` and
brackets are known; anything else ends the reading, and no name is made.
"""

import re
from collections.abc import Callable

KEYS_MAX = 10_000
NAMES_MAX = 2_000
"""Of one table; the largest seen made 276."""
DEPTH_MAX = 40
"""Of brackets and objects in each other."""
PARTS_MAX, WORK_MAX = 5_000, 1_000_000
"""Of an expression, and parts times keys: each key asks each part, which is some tenths of a second."""
CONSTANT_CHARS_MAX, NAME_CHARS_MAX = 200, 500

_Value = str | bool | None
"""None stands for `undefined`."""
_Term = Callable[[str], _Value]

_TOKEN = re.compile(r"\s*+(?:\"([^\"\\\n]*+)\"|'([^'\\\n]*+)'|([\w$.]++)|(===?|\|\||[-+?:\[\]{}(),]))")
_NUMBER = re.compile(r"\d{1,12}(?:e\d)?")


class _UnreadableError(Exception):
    """The expression has something in it that no table needs."""


def chunk_names(source: str, at: int, variable: str = "") -> list[str]:
    """Of the expression that begins there, of a variable of that name (else of any). Empty if it cannot be read."""
    reader = _Reader(source, at, variable)
    try:
        term = reader.choice(0)
    except _UnreadableError:
        return []
    if reader.parts * len(reader.keys) > WORK_MAX:
        return []
    names: dict[str, None] = {}
    for key in reader.keys:
        name = term(key)
        if isinstance(name, str) and 0 < len(name) <= NAME_CHARS_MAX and "undefined" not in name:
            names[name] = None
        if len(names) >= NAMES_MAX:
            break
    return list(names)


class _Reader:
    def __init__(self, source: str, at: int, variable: str) -> None:
        self._source = source
        self._variable = variable
        self.keys: dict[str, None] = {}
        self.parts = 0
        self._next(at)

    def _next(self, at: int) -> None:
        """Looks at the token there: a literal, a name or a sign, of which one is not None."""
        match = _TOKEN.match(self._source, at)
        if match is None:
            self._literal, self._name, self._sign, self._end = None, "", "", at
            return
        self._literal = match[1] if match[1] is not None else match[2]
        self._name, self._sign, self._end = match[3] or "", match[4] or "", match.end()

    def _take(self, sign: str) -> bool:
        if self._sign != sign:
            return False
        self._next(self._end)
        return True

    def _need(self, sign: str) -> None:
        if not self._take(sign):
            raise _UnreadableError

    def choice(self, depth: int) -> _Term:
        """`a ? b : c`, of which the last may be another: a chain, which is no recursion."""
        tests: list[tuple[_Term, _Term]] = []
        term = self._either(depth)
        while self._take("?"):
            then = self.choice(depth + 1)
            self._need(":")
            tests.append((term, then))
            term = self._either(depth)
        return _chosen(tests, term) if tests else term

    def _either(self, depth: int) -> _Term:
        terms = [self._equal(depth)]
        while self._take("||"):
            terms.append(self._equal(depth))
        return terms[0] if len(terms) == 1 else lambda key: _first(terms, key)

    def _equal(self, depth: int) -> _Term:
        constants = [self._constant()]
        left = self._sum(depth)
        if self._sign not in ("==", "==="):
            return left
        self._next(self._end)
        constants.append(self._constant())
        right = self._sum(depth)
        for constant in constants:
            if constant is not None:
                self._note(constant)
        return lambda key: left(key) == right(key)

    def _sum(self, depth: int) -> _Term:
        terms = [self._part(depth)]
        while self._take("+"):
            terms.append(self._part(depth))
        return terms[0] if len(terms) == 1 else lambda key: "".join(_said(term(key)) for term in terms)

    def _part(self, depth: int) -> _Term:
        self.parts += 1
        if depth > DEPTH_MAX or self.parts > PARTS_MAX:
            raise _UnreadableError
        constant = self._constant()
        if constant is not None:
            self._next(self._end)
            return lambda _: constant
        if self._take("("):
            term = self.choice(depth + 1)
            self._need(")")
            return term
        if self._take("{"):
            table = self._table()
            self._need("[")
            index = self.choice(depth + 1)
            self._need("]")
            return lambda key: table.get(_said(index(key)))
        return self._variable_or_path()

    def _variable_or_path(self) -> _Term:
        name = self._name
        self._next(self._end)
        if name == self._variable or (not self._variable and name and "." not in name):
            return lambda key: key
        if name.endswith(".p"):  # the folder of all, which the caller knows or guesses
            return lambda _: ""
        raise _UnreadableError

    def _table(self) -> dict[str, str]:
        table: dict[str, str] = {}
        while not self._take("}"):
            key = self._constant()
            key = self._name if key is None else key
            self._next(self._end)
            self._need(":")
            value = self._constant()
            if value is None or not key:
                raise _UnreadableError
            self._next(self._end)
            table[key] = value
            self._note(key)
            if self._sign != "}":
                self._need(",")
        return table

    def _constant(self) -> str | None:
        """The literal that stands here; numbers as a script would write them."""
        if self._literal is not None:
            if len(self._literal) > CONSTANT_CHARS_MAX:
                raise _UnreadableError
            return self._literal
        return str(int(float(self._name))) if _NUMBER.fullmatch(self._name) else None

    def _note(self, key: str) -> None:
        if len(self.keys) >= KEYS_MAX:
            raise _UnreadableError
        self.keys[key] = None


def _chosen(tests: list[tuple[_Term, _Term]], last: _Term) -> _Term:
    def term(key: str) -> _Value:
        for test, then in tests:
            if test(key):
                return then(key)
        return last(key)

    return term


def _first(terms: list[_Term], key: str) -> _Value:
    value: _Value = None
    for term in terms:
        value = term(key)
        if value:
            return value
    return value


def _said(value: _Value) -> str:
    return "undefined" if value is None else str(value)
