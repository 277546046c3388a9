"""How do links look as bytes? Batches and their answers (`docs/protocol/links.md`), made and read here alone.

A batch is sorted by URL. Each URL says how many letters it shares with the previous one. The batch is in columns (all
lengths, then all letters) that zstd packs well, with a dictionary of common parts of URLs. Keys are not sent: they
are the SHA-1 of the URLs. A stranger's batch is bounded before it is unpacked, and checked entry by entry; whether a
URL is canonical is not checked here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Final, Literal

import msgspec
import zstandard
from msgspec import Meta

from crawler.core.link import Link, Rule, kind_of
from crawler.core.recrawl import Bounds
from crawler.core.urls import URL_CHARS_MAX
from dht.core.arcs import Arc, Arcs
from dht.core.ids import KEY_BYTES, IdCheck, Key, PeerKey
from dht.core.records import SLOTS, VIRTUAL_NODES_MAX, Address, Contact, is_address
from herodotus.core.errors import MalformedError
from herodotus.core.reconciliation import PARTS, Sum
from herodotus.peers.calls import encode, reader

VERSION: Final = 2
_ANSWER_VERSION: Final = 1
BATCH_LINKS_MAX: Final = 10_000
BATCH_BYTES_MAX: Final = 4 << 20
"""Unpacked."""
CONTACTS_MAX: Final = 16
DEPTH_MAX: Final = 63
PEER_BYTES: Final = 32
LEVEL: Final = 19
"""Batches are small: of 60 links it costs about a millisecond."""

_EMBEDDED, _DOUBTFUL, _DEPTH_SHIFT = 1, 2, 2
_DICTIONARY: Final = (
    b"/wp-content/themes//wp-content/uploads/2019//wp-content/uploads/2021//wp-content/uploads/2024//wp-json/"
    b"/wp-includes/js/jquery/feed//comments/feed//tag//tags//author//archive//archives//category//categories/"
    b"/page/2/?page=2&page=3&id=1&lang=en&sort=&start=0&offset=?p=1?q=?id=?s=?v=/search?q=/cgi-bin//news/2020/"
    b"/2018/2022/2023/2025/01/02/03/04/05/06/07/08/09/10/11/12/article//articles//story//stories//post//posts/"
    b"/product//products//shop//store//item//items//forum//forums//viewtopic.php?t=/showthread.php?t=/thread/"
    b"/topic//topics//wiki/Special:/wiki/Category:/wiki/File:/wiki/Talk:/w/index.php?title=/users//user//people/"
    b"/profile//about//about-us//contact//privacy//terms//help//faq//login//download//downloads//docs//doc//pub/"
    b"/files//file//media//video//videos//photos//photo//gallery//img//image//images//pics//icons//static//assets/"
    b"/css/style.css/js/main.js.min.js.min.css/fonts//logo.png/icon.gif/banner.jpg/thumb.jpeg/favicon.ico.svg.webp"
    b"/blog//en//de//fr//es//it//ja//nl//ru/index.html/index.htm/index.php/default.aspx/home/main.html.shtml.php3.xml"
    b".asp.jsp.cgi.pdf.txt.zip.gif.png.jpg.htm.php.html~.edu/.gov/.info/.io/.uk/.co.uk/.ac.uk/.eu/.it/.jp/.co.jp/"
    b".ru/.nl/.fr/.ch/.at/.pl/.cz/.se/.au/.com.au/.br/.com.br/.ca/.us/.in/.cn/.net/.de/.org/.com/http://web.http://cs."
    b"http://en.http://m.http://news.http://blog.http://forum.https://en.https://blog.https://http://www.https://www."
)


def meta_of(link: Link) -> int:
    """The byte of a link beside its URL: all that its holders are to remember."""
    return min(link.depth, DEPTH_MAX) << _DEPTH_SHIFT | link.is_doubtful * _DOUBTFUL | link.is_embedded


def link_of(url: str, meta: int, bounds: Bounds | None = None) -> Link:
    kind = kind_of(is_embedded=bool(meta & _EMBEDDED))
    is_doubtful = bool(meta & _DOUBTFUL)
    rule = Rule.GUESSED if is_doubtful and kind.is_embedded else Rule.MARKUP
    return Link(url, kind, meta >> _DEPTH_SHIFT, is_doubtful, rule=rule, bounds=bounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """The answer: all others of the batch are durable. Places are those in the batch's order, by URL."""

    strays: tuple[int, ...] = ()
    """Not the receiver's, by its view of the ring; the contacts are those it thinks of instead."""
    rubbish: tuple[int, ...] = ()
    """Nobody's: malformed, or outside of what the network archives."""
    contacts: tuple[Contact, ...] = ()


def in_order(links: Sequence[Link]) -> list[Link]:
    return sorted(links, key=lambda link: link.url)


def encode_batch(links: Sequence[Link]) -> bytes:
    """Of links as `in_order` gives them."""
    if not 0 < len(links) <= BATCH_LINKS_MAX:
        raise ValueError(f"a batch of {len(links)} links")
    shared, lengths, letters = bytearray(), bytearray(), bytearray()
    before = b""
    for link in links:
        url = link.url.encode()
        same = _shared(before, url)
        _put_number(shared, same)
        _put_number(lengths, len(url) - same)
        letters += url[same:]
        before = url
    count = bytearray()
    _put_number(count, len(links))
    metas = bytes(map(meta_of, links))
    plain = b"".join((count, shared, lengths, metas, letters, _bounds_part(links)))
    return bytes((VERSION,)) + _packer().compress(plain)


def _bounds_part(links: Sequence[Link]) -> bytes:
    """The different bounds of the batch, then for each link which of them it has; nothing where none has any."""
    places = dict[Bounds | None, int]({None: 0})
    column = bytearray()
    for link in links:
        _put_number(column, places.setdefault(link.bounds, len(places)))
    if len(places) == 1:
        return b""
    table = bytearray()
    _put_number(table, len(places) - 1)
    for bounds in list(places)[1:]:
        packed = encode(bounds)
        _put_number(table, len(packed))
        table += packed
    return bytes(table + column)


def decode_batch(data: bytes) -> list[Link]:
    if data[:1] != bytes((VERSION,)):
        raise MalformedError("version")
    plain = _unpacked(data[1:])
    numbers = _Numbers(plain)
    count = numbers.take()
    if not 0 < count <= BATCH_LINKS_MAX:
        raise MalformedError("count")
    shared = [numbers.take() for _ in range(count)]
    lengths = [numbers.take() for _ in range(count)]
    letters_at = numbers.at + count
    metas = plain[numbers.at : letters_at]
    numbers.at = letters_at + sum(lengths)
    if numbers.at > len(plain) or len(metas) != count:
        raise MalformedError("length")
    bounds = _read_bounds(plain, numbers, count)
    return list(_links(plain, letters_at, shared, lengths, metas, bounds))


def _read_bounds(plain: bytes, numbers: "_Numbers", links: int) -> list[Bounds | None]:
    """Of each link of the batch."""
    if numbers.at == len(plain):
        return [None] * links
    size = numbers.take()
    if not 0 < size <= links:
        raise MalformedError("bounds")
    table: list[Bounds | None] = [None]
    for _ in range(size):
        length = numbers.take()
        table.append(_decode_bounds(plain[numbers.at : numbers.at + length]))
        numbers.at += length
    places = [numbers.take() for _ in range(links)]
    if max(places) > size or numbers.at != len(plain):
        raise MalformedError("bounds")
    return [table[place] for place in places]


def _links(
    plain: bytes,
    at: int,
    shared: list[int],
    lengths: list[int],
    metas: bytes,
    bounds: list[Bounds | None],
) -> Iterator[Link]:
    before = b""
    for same, length, meta, reach in zip(shared, lengths, metas, bounds, strict=True):
        if same > len(before) or same + length > URL_CHARS_MAX:
            raise MalformedError("length")
        url = before[:same] + plain[at : at + length]
        if url <= before or not url.isascii():
            raise MalformedError("order" if url.isascii() else "letters")
        yield link_of(url.decode("ascii"), meta, reach)
        before, at = url, at + length


def _shared(before: bytes, url: bytes) -> int:
    low, high = 0, min(len(before), len(url))
    while low < high:
        middle = (low + high + 1) // 2
        if before[:middle] == url[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _put_number(into: bytearray, number: int) -> None:
    while number > 0x7F:
        into.append(number & 0x7F | 0x80)
        number >>= 7
    into.append(number)


class _Numbers:
    """Seven bits a byte, the least first; the high bit says that more follow."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def take(self) -> int:
        number = 0
        for shift in (0, 7, 14):
            if self.at >= len(self._data):
                raise MalformedError("length")
            byte = self._data[self.at]
            self.at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
        raise MalformedError("number")


@lru_cache(maxsize=1)
def _dictionary() -> zstandard.ZstdCompressionDict:
    return zstandard.ZstdCompressionDict(_DICTIONARY, dict_type=zstandard.DICT_TYPE_RAWCONTENT)


def _packer() -> zstandard.ZstdCompressor:
    parameters = zstandard.ZstdCompressionParameters.from_level(
        LEVEL, format=zstandard.FORMAT_ZSTD1_MAGICLESS, write_checksum=0, write_dict_id=0
    )
    return zstandard.ZstdCompressor(dict_data=_dictionary(), compression_params=parameters)


def _unpacked(data: bytes) -> bytes:
    unpacker = zstandard.ZstdDecompressor(
        dict_data=_dictionary(), format=zstandard.FORMAT_ZSTD1_MAGICLESS, max_window_size=BATCH_BYTES_MAX
    )
    try:
        with unpacker.stream_reader(data) as reader:
            plain = reader.read(BATCH_BYTES_MAX + 1)
    except zstandard.ZstdError as error:
        raise MalformedError("packing") from error
    if len(plain) > BATCH_BYTES_MAX:
        raise MalformedError("size")
    return plain


# --- sums

_SUM_BYTES: Final = 4 + KEY_BYTES


def encode_sums(reached: Key, sums: Sequence[Sum]) -> bytes:
    parts = (one.keys.to_bytes(4, "big") + one.xor.to_bytes(KEY_BYTES, "big") for one in sums)
    return b"".join((reached, *parts))


def decode_sums(data: bytes) -> tuple[Key, list[Sum]]:
    if len(data) != KEY_BYTES + PARTS * _SUM_BYTES:
        raise MalformedError("sums")
    starts = range(KEY_BYTES, len(data), _SUM_BYTES)
    return Key(data[:KEY_BYTES]), [
        Sum(int.from_bytes(data[at : at + 4], "big"), int.from_bytes(data[at + 4 : at + _SUM_BYTES], "big"))
        for at in starts
    ]


# --- answers

_Place = Annotated[int, Meta(ge=0, lt=BATCH_LINKS_MAX)]
_PeerKey = Annotated[bytes, Meta(min_length=32, max_length=32)]
_Slot = Annotated[int, Meta(ge=0, lt=SLOTS)]
_Index = Annotated[int, Meta(ge=0, lt=VIRTUAL_NODES_MAX)]
_Contact = tuple[_PeerKey, bytes, int, _Slot, _Index]
_Contacts = Annotated[list[_Contact], Meta(max_length=CONTACTS_MAX)]
_decode_bounds = reader(Bounds)
_decode_answer = reader(tuple[Literal[1], list[_Place], list[_Place], _Contacts])
_ANSWER_BYTES_MAX: Final = 3 * 2 * BATCH_LINKS_MAX + 100 * CONTACTS_MAX


def encode_taken(taken: Taken) -> bytes:
    """Without members whose seats are from elsewhere: where these sit the ring says."""
    contacts = [
        (contact.peer, contact.address.host, contact.address.port, contact.slot, contact.index)
        for contact in taken.contacts[:CONTACTS_MAX]
        if not contact.birth
    ]
    return encode((_ANSWER_VERSION, taken.strays, taken.rubbish, contacts))


def decode_taken(data: bytes, sent: int, id_check: IdCheck) -> Taken:
    """The answer to a batch of so many links."""
    if len(data) > _ANSWER_BYTES_MAX:
        raise MalformedError("size")
    _, strays, rubbish, contacts = _decode_answer(data)
    places = (*strays, *rubbish)
    if len({*places}) != len(places) or max(places, default=-1) >= sent:
        raise MalformedError("answer")
    return Taken(
        strays=tuple(strays),
        rubbish=tuple(rubbish),
        contacts=tuple(_contact(one, id_check) for one in contacts),
    )


def _contact(one: _Contact, id_check: IdCheck) -> Contact:
    peer, host, port, slot, index = one
    address = Address(host=host, port=port)
    if not is_address(address):
        raise MalformedError("answer")
    return Contact.at(PeerKey(peer), address, slot, index, id_check)


def encode_crossed(*, stands_out: bool) -> bytes:
    return b"\1" if stands_out else b"\0"


def decode_crossed(data: bytes) -> bool:
    if data not in (b"\0", b"\1"):
        raise MalformedError("answer")
    return data == b"\1"


# --- rows of the links' folder


class WaitingRow(msgspec.Struct, array_like=True):
    """A link of the outbox. The order of the fields is the file format."""

    generation: int
    url: str
    meta: int
    since_s: int
    bounds: Bounds | None = None

    @property
    def link(self) -> Link:
        return link_of(self.url, self.meta, self.bounds)


class StandbyRow(msgspec.Struct, array_like=True):
    """A URL that this peer holds as a stand-in. The order of the fields is the file format."""

    url: str
    meta: int
    bounds: Bounds | None = None


decode_waiting = msgspec.msgpack.Decoder(WaitingRow).decode
decode_walk = msgspec.msgpack.Decoder(tuple[int, bool]).decode
_decode_standby = msgspec.msgpack.Decoder(StandbyRow).decode
_decode_arcs = msgspec.msgpack.Decoder(list[tuple[bytes, bytes]]).decode


def waiting_row(generation: int, link: Link, since_s: int) -> bytes:
    return encode(WaitingRow(generation, link.url, meta_of(link), since_s, link.bounds))


def walk_row(number: int, *, is_walking: bool) -> bytes:
    return encode((number, is_walking))


def standby_row(link: Link) -> bytes:
    return encode(StandbyRow(link.url, meta_of(link), link.bounds))


def decode_standby(row: bytes) -> Link:
    found = _decode_standby(row)
    return link_of(found.url, found.meta, found.bounds)


def arcs_row(arcs: Arcs) -> bytes:
    return encode(list(arcs))


def decode_arcs(row: bytes) -> Arcs:
    return Arcs(Arc(Key(start), Key(end)) for start, end in _decode_arcs(row))
