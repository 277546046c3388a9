"""How does a frozen dataclass become a section of a file that people write?

Each field is declared by its kind (how to read and write it, unit and range): `kind.setting(default, reason)`, with the
reason that the file shows. `read_table` checks a parsed TOML table and refuses unknown keys. Settings and charter both
use it.
"""

import dataclasses
import difflib
import ipaddress
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urlsplit

from herodotus.core.errors import SettingError
from herodotus.core.host_names import host_kind, is_host_name
from herodotus.core.offered_limits import Hours

_KIND = "herodotus.kind"
_REASON = "herodotus.reason"


class Unfit(ValueError):
    """The value does not fit this setting. The sentence continues the setting's name: "must be ..."."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldKind:
    """`read` takes a TOML value, `read_text` the text of an environment variable or a flag."""

    what: str
    read: Callable[[object], object]
    read_text: Callable[[str], object]
    write: Callable[[Any], str]

    def setting(self, default: Any, reason: str) -> Any:  # the type of dataclasses.field, for the same reason
        return field(default=default, metadata={_KIND: self, _REASON: reason})


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class HostPort:
    """An IP address and port to listen on or to reach."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> "HostPort":
        match = re.fullmatch(r"\[([^\]]+)\]:(\d{1,5})|([^:\[\]]+):(\d{1,5})", text.strip())
        if match is None:
            raise Unfit(f"must be IP:PORT (IPv6 as [::1]:4484), not {shown(text)}")
        host, port = match[1] or match[3], int(match[2] or match[4])
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            raise Unfit(f"must begin with an IP address, not the name {shown(host)}") from None
        if port > 65535:
            raise Unfit(f"must have a port of 0 to 65535, not {port}")
        return cls(host=str(address), port=port)


@dataclass(frozen=True, slots=True)
class PeerDoor:
    """Where a peer may be found: an address and port, a name and port, or a name alone, whose port DNS may tell."""

    host: str
    port: int | None

    def __str__(self) -> str:
        return self.host if self.port is None else str(HostPort(host=self.host, port=self.port))

    @property
    def is_name(self) -> bool:
        return host_kind(self.host) == 0

    @classmethod
    def parse(cls, text: str) -> "PeerDoor":
        match = re.fullmatch(r"\[([^\]]+)\](?::(\d{1,5}))?|([^:\[\]]+)(?::(\d{1,5}))?", text.strip())
        what = "IP:PORT, NAME:PORT, or the NAME of a network's contacts"
        if match is None:
            raise Unfit(f"must be {what} (IPv6 as [2001:db8::1]:4484), not {shown(text)}")
        host, port = (match[1] or match[3]).lower().rstrip("."), match[2] or match[4]
        is_number = host_kind(host) != 0
        if not is_number and (
            match[1] is not None or host.replace(".", "").isdigit() or not is_host_name(host)
        ):
            raise Unfit(f"must be {what}, and {shown(host)} is neither an address nor a name")
        if port is None and is_number:
            raise Unfit(f"must have a port after the address, as {host}:4484, not {shown(text)}")
        if port is not None and not 0 < int(port) <= 65535:
            raise Unfit(f"must have a port of 1 to 65535, not {port}")
        return cls(host=host, port=None if port is None else int(port))


def _typed(value: object, wanted: type | tuple[type, ...], what: str) -> object:
    if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
        raise Unfit(f"must be {what}, not {shown(value)}")
    return value


def shown(value: object) -> str:
    """The value in a sentence: on one line, and short however long it is."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value.bit_length() > 200:  # Python refuses to write out very long numbers
        return "a far larger number" if value > 0 else "a far smaller number"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _number_in_text(text: str, what: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            raise Unfit(f"must be {what}, not {shown(text)}") from None


def whole(minimum: int, maximum: int, unit: str = "") -> FieldKind:
    return _ranged(f"a whole number from {minimum} to {maximum}", unit, minimum, maximum, int, int, str)


def number(minimum: float, maximum: float, unit: str = "") -> FieldKind:
    def made(value: float) -> float:
        return float(value) + 0.0  # minus zero becomes zero

    what = f"a number from {minimum:g} to {maximum:g}"
    return _ranged(what, unit, minimum, maximum, (int, float), made, repr)


def seconds(minimum: float, maximum: float) -> FieldKind:
    return number(minimum, maximum, "seconds")


def _ranged(
    what: str,
    unit: str,
    minimum: float,
    maximum: float,
    wanted: type | tuple[type, ...],
    made: Callable[[Any], object],
    write: Callable[[Any], str],
) -> FieldKind:
    what += f" ({unit})" if unit else ""

    def read(value: object) -> object:
        given = cast("float", _typed(value, wanted, what))
        if not minimum <= given <= maximum:  # false for NaN, too
            raise Unfit(f"must be {what}, not {shown(given)}")
        return made(given)

    return FieldKind(
        what=what, read=read, read_text=lambda text: read(_number_in_text(text, what)), write=write
    )


def flag() -> FieldKind:
    words = dict.fromkeys(("true", "yes", "1", "on"), True) | dict.fromkeys(
        ("false", "no", "0", "off"), False
    )

    def read_text(text: str) -> bool:
        if text.strip().lower() not in words:
            raise Unfit(f"must be true or false, not {shown(text)}")
        return words[text.strip().lower()]

    return FieldKind(
        what="true or false",
        read=lambda value: _typed(value, bool, "true or false"),
        read_text=read_text,
        write=lambda value: str(value).lower(),
    )


def _textual(what: str, read: Callable[[str], object], write: Callable[[Any], str] = str) -> FieldKind:
    return FieldKind(
        what=what,
        read=lambda value: read(cast("str", _typed(value, str, what))),
        read_text=read,
        write=lambda value: json.dumps(write(value), ensure_ascii=False),
    )


def _fitting(what: str, is_fit: Callable[[str], bool]) -> FieldKind:
    """A text as it stands."""

    def read(text: str) -> str:
        if not is_fit(text):
            raise Unfit(f"must be {what}, not {shown(text)}")
        return text

    return _textual(what, read)


def choice(*words: str) -> FieldKind:
    return _fitting("one of " + ", ".join(f'"{word}"' for word in words), lambda text: text in words)


def line(length_max: int, what: str = "one line of text", pattern: str = ".*") -> FieldKind:
    return _fitting(
        f"{what} of at most {length_max} characters",
        lambda text: len(text) <= length_max and text.isprintable() and bool(re.fullmatch(pattern, text)),
    )


def endpoint() -> FieldKind:
    return _textual("IP:PORT", HostPort.parse)


def peer_door() -> FieldKind:
    return _textual("IP:PORT, NAME:PORT or NAME", PeerDoor.parse)


def web_address() -> FieldKind:
    return _fitting('an http:// or https:// address, or a mailto: one, or ""', _is_web_address)


def _is_web_address(text: str) -> bool:
    if len(text) > 300 or not text.isascii() or not text.isprintable() or " " in text:
        return False
    try:
        parts = urlsplit(text)
        is_of_web = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False
    return is_of_web or (parts.scheme == "mailto" and "@" in parts.path) or not text


def hours() -> FieldKind:
    what = 'hours of the day as "22:00-06:30", by this machine\'s clock'

    def read(text: str) -> Hours:
        try:
            return Hours.parse(text)
        except ValueError:
            raise Unfit(f"must be {what}, not {shown(text)}") from None

    return _textual(what, read)


def many(kind: FieldKind, count_max: int) -> FieldKind:
    """A list; in an environment variable its entries are separated by commas."""
    what = f"a list of at most {count_max} entries, each {kind.what}"

    def read_all(values: list[object], read: Callable[[Any], object]) -> tuple[object, ...]:
        if len(values) > count_max:
            raise Unfit(f"must be {what}, not {len(values)}")
        return tuple(read(value) for value in values)

    return FieldKind(
        what=what,
        read=lambda value: read_all(cast("list[object]", _typed(value, list, what)), kind.read),
        read_text=lambda text: read_all(
            [part.strip() for part in text.split(",") if part.strip()], kind.read_text
        ),
        write=lambda values: "[" + ", ".join(kind.write(value) for value in values) + "]",
    )


def kind_of(one: "dataclasses.Field[Any]") -> FieldKind:
    return cast("FieldKind", one.metadata[_KIND])


def reason_of(one: "dataclasses.Field[Any]") -> str:
    return cast("str", one.metadata[_REASON])


def fields_of(section: type) -> dict[str, "dataclasses.Field[Any]"]:
    return {one.name: one for one in dataclasses.fields(section)}


def shown_key(key: str) -> str:
    """A key as it was written, unless it would break the sentence."""
    return key if key.isprintable() and len(key) <= 60 else shown(key)


def nearest(name: str, names: list[str]) -> str:
    """Help for a misspelt name."""
    close = difflib.get_close_matches(name[:100], names, n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else f"known are {', '.join(names)}"


def read_value(
    one: "dataclasses.Field[Any]", value: object, *, source: str, key: str, is_text: bool = False
) -> object:
    kind = kind_of(one)
    try:
        return kind.read_text(str(value)) if is_text else kind.read(value)
    except Unfit as error:
        raise SettingError(source=source, key=key, problem=str(error)) from None


def read_table(
    section: type, table: Mapping[str, object], *, source: str, prefix: str = ""
) -> dict[str, Any]:
    """The values of the table, checked; without the fields that it leaves out."""
    known = fields_of(section)
    values: dict[str, Any] = {}
    for name, value in table.items():
        key = f"{prefix}{name}"
        if name not in known:
            names = [f"{prefix}{one}" for one in known]
            hint = nearest(key, names)
            raise SettingError(source=source, key=shown_key(key), problem="is not a setting", hint=hint)
        values[name] = read_value(known[name], value, source=source, key=key)
    return values
