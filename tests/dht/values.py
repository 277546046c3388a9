"""Values for the codec's tests: fixed ones for golden bytes, and Hypothesis strategies of every message."""

import hashlib
from typing import Any, Final

from hypothesis import strategies as st

from dht.core import messages as m
from dht.core.ids import Key, NetworkId, PeerKey, birth_host
from dht.core.records import (
    DAY_MAX,
    LINES_MAX,
    RECORD_VERSION,
    RELAYS_MAX,
    TRAIL_MAX,
    Address,
    Birth,
    Contact,
    Death,
    Departure,
    Line,
    PeerRecord,
    SignedRecord,
    Stay,
)
from dht.core.seats import MARK_BYTES
from dht.identity import peer_key
from tests.dht.link_world import NETWORK, key_from

U32: Final = (1 << 32) - 1
U64: Final = (1 << 64) - 1


def record_of(name: str) -> PeerRecord:
    return PeerRecord(
        version=RECORD_VERSION,
        network=NetworkId(NETWORK),
        peer=peer_key(key_from(name)),
        lines=(Line.at(Address(host=bytes((192, 0, 2, 7)), port=4484)),),
        slot=3,
        virtual_nodes=4,
        incarnation=5,
        issued_s=1_790_000_000,
        expires_s=1_790_086_400,
        flags=0,
        previous=b"",
        since=20_700,
    )


def digest_of(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


ids = st.integers(0, U64)
u32 = st.integers(0, U32)
keys = st.binary(min_size=20, max_size=20).map(Key)
peers = st.binary(min_size=32, max_size=32).map(PeerKey)
signatures = st.binary(min_size=64, max_size=64)
posted = st.binary(min_size=1, max_size=m.POSTED_BYTES_MAX)
short_bodies = st.binary(max_size=m.SHORT_BYTES_MAX)
hosts = st.one_of(st.binary(min_size=4, max_size=4), st.binary(min_size=16, max_size=16))
ports = st.integers(0, 65_535)
open_ports = st.integers(1, 65_535)
addresses = st.builds(Address, host=hosts, port=ports)
lines = st.builds(Line, host=hosts, udp=ports, tcp=ports)
births = st.builds(Birth, host=hosts, day=st.integers(0, DAY_MAX))
stays = st.builds(
    Stay,
    place=st.one_of(*(st.binary(max_size=size).map(bytes((size,)).__add__) for size in (4, 16))).filter(
        lambda place: len(place) > 1
    ),
    since=st.integers(0, DAY_MAX),
)
indices = st.integers(0, 63)
contacts = st.one_of(  # the codec under test is one of a ring with id check `ip`
    st.builds(Contact.at, peers, addresses, st.integers(0, 7), indices, st.just("ip")),
    st.builds(Contact.at, peers, addresses, st.just(0), indices, st.just("ip"), hosts.map(birth_host)),
)


def tuples(elements: st.SearchStrategy[Any], least: int, most: int) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(elements, min_size=least, max_size=most).map(tuple)


@st.composite
def signed_records(draw: st.DrawFn) -> SignedRecord:
    previous = draw(st.one_of(st.just(b""), peers))
    record = PeerRecord(
        version=draw(st.integers(RECORD_VERSION, 255)),
        network=NetworkId(draw(st.binary(min_size=8, max_size=8))),
        peer=draw(peers),
        lines=draw(tuples(lines, 1, LINES_MAX)),
        slot=draw(st.integers(0, 7)),
        virtual_nodes=draw(st.integers(1, 64)),
        incarnation=draw(u32),
        issued_s=draw(st.integers(0, (1 << 40) - 1)),
        expires_s=draw(st.integers(0, (1 << 40) - 1)),
        flags=draw(u32),
        previous=previous,
        since=draw(st.integers(0, DAY_MAX)),
        trail=draw(tuples(stays, 0, TRAIL_MAX)),
        seat=draw(st.one_of(st.none(), births)),
        relays=draw(tuples(st.binary(min_size=8, max_size=8), 0, RELAYS_MAX)),
    )
    return SignedRecord(
        record=record,
        signature=draw(signatures),
        previous_signature=draw(signatures) if previous else b"",
    )


deaths = st.builds(
    Death,
    peer=peers,
    incarnation=u32,
    accuser=peers,
    accuser_signature=signatures,
    confirmer=peers,
    confirmer_signature=signatures,
)
departures = st.builds(Departure, peer=peers, incarnation=u32, signature=signatures)
news = st.one_of(signed_records(), deaths, departures)

BY_KIND: Final[dict[type, st.SearchStrategy[Any]]] = {
    **{kind: st.builds(kind, id=ids) for kind in (m.Ping, m.Pong, m.Ack, m.Unchanged, m.Busy, m.NotMember)},
    m.GetState: st.builds(m.GetState, id=ids, source=contacts, target=indices, known=u32),
    m.NeighbourState: st.builds(
        m.NeighbourState,
        id=ids,
        version=st.integers(1, U32),
        predecessor=st.one_of(st.none(), contacts),
        successors=tuples(contacts, 0, m.SUCCESSORS_MAX),
    ),
    m.Notify: st.builds(m.Notify, id=ids, source=contacts, target=indices),
    m.Find: st.builds(m.Find, id=ids, key=keys),
    m.Owner: st.builds(
        m.Owner,
        id=ids,
        holders=tuples(contacts, 1, m.HOLDERS_MAX),
        records=tuples(signed_records(), 0, m.OWNER_RECORDS_MAX),
    ),
    m.Closer: st.builds(m.Closer, id=ids, contacts=tuples(contacts, 0, m.CLOSER_MAX)),
    m.Rumour: st.builds(m.Rumour, id=ids, news=tuples(news, 0, m.NEWS_MAX)),
    m.Digest: st.builds(
        m.Digest,
        id=ids,
        sums=st.sampled_from((m.FOLDS, m.BUCKETS)).flatmap(lambda count: tuples(u32, count, count)),
    ),
    m.DigestDiffers: st.builds(
        m.DigestDiffers, id=ids, buckets=st.sets(st.integers(0, 255)).map(lambda s: tuple(sorted(s)))
    ),
    m.Pull: st.builds(
        m.Pull,
        id=ids,
        bucket=st.integers(0, 255),
        after=st.one_of(st.just(b""), peers),
        have=tuples(u32, 0, m.HAVE_MAX),
    ),
    m.MemberRecords: st.builds(m.MemberRecords, id=ids, news=tuples(news, 0, m.NEWS_MAX), more=st.booleans()),
    m.ProbeRequest: st.builds(m.ProbeRequest, id=ids, target=contacts),
    m.ProbeReply: st.builds(m.ProbeReply, id=ids, is_alive=st.booleans()),
    m.Accuse: st.builds(m.Accuse, id=ids, suspect=contacts, incarnation=u32, signature=signatures),
    m.AliveVerdict: st.builds(m.AliveVerdict, id=ids, signature=st.one_of(st.just(b""), signatures)),
    m.DialBackRequest: st.builds(m.DialBackRequest, id=ids, udp=open_ports, tcp=open_ports),
    m.DialBackReply: st.builds(
        m.DialBackReply, id=ids, is_reached=st.booleans(), by_stream=st.booleans(), is_cold=st.booleans()
    ),
    m.StrangerDial: st.builds(m.StrangerDial, id=ids, peer=peers, host=hosts, udp=open_ports, tcp=open_ports),
    m.StrangerDialled: st.builds(
        m.StrangerDialled,
        id=ids,
        is_stranger=st.booleans(),
        is_reached=st.booleans(),
        by_stream=st.booleans(),
    ),
    m.CallsFail: st.builds(m.CallsFail, id=ids),
    m.Offer: st.builds(m.Offer, id=ids, marks=tuples(ids, 1, m.MARKS_MAX)),
    m.Want: st.builds(m.Want, id=ids, marks=tuples(ids, 1, m.NEWS_MAX)),
    m.ShortCall: st.builds(
        m.ShortCall, id=ids, service=st.from_regex("[!-~]{1,32}", fullmatch=True), body=short_bodies
    ),
    m.Knock: st.builds(m.Knock, id=ids, called=peers),
    m.Post: st.builds(m.Post, id=ids, to=peers, data=posted),
    m.Posted: st.builds(m.Posted, id=ids, source=peers, data=posted),
    m.Knocked: st.builds(m.Knocked, id=ids, caller=peers, address=addresses),
    m.ShortAnswer: st.builds(
        m.ShortAnswer, id=ids, outcome=st.integers(m.ANSWERED, m.BY_STREAM), body=short_bodies
    ),
    m.AskSeats: st.builds(
        m.AskSeats,
        id=ids,
        marks=tuples(st.binary(min_size=MARK_BYTES, max_size=MARK_BYTES), 1, m.SEATS_ASKED_MAX),
    ),
    m.SeatsKnown: st.builds(
        m.SeatsKnown,
        id=ids,
        words=st.lists(st.integers(0, 2), max_size=m.SEATS_ASKED_MAX).map(bytes),
    ),
}
assert set(BY_KIND) == {*m.REQUESTS, *m.REPLIES}
BYTES_MAX: Final = 1 << 16
"""Of a message whose length is not what a test is about."""
messages: Final = st.one_of(*BY_KIND.values())
