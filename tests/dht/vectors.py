"""The protocol's test vectors: one of every frame, message and signature, from fixed values.

`python -m tests.dht.vectors` prints them; `golden/ring-3.txt` is that output, and changes only with a new
version.
"""

import sys
from collections.abc import Iterator

from msgspec.structs import replace

from dht.core import messages as m
from dht.core.frames import Echo, Nonce
from dht.core.ids import Key, birth_host
from dht.core.records import Address, Birth, Contact, Death, Departure, Line, Stay
from dht.core.seats import mark_of
from dht.identity import KeyNotary, peer_key, rotation_record, sign_record
from dht.wire import encode_message, encode_record, record_signed_bytes
from tests.dht.link_world import NETWORK, LinkWorld, key_from
from tests.dht.values import digest_of, record_of

ANNA, BERT, CARL = key_from("anna"), key_from("bert"), key_from("carl")
FOUR = Address(host=bytes((192, 0, 2, 7)), port=4484)
BIRTH = Birth(host=bytes((198, 51, 100, 7)), day=20_710)
SIX = Address(host=bytes.fromhex("20010db8000000000000000000000007"), port=65_535)


def key(name: str) -> Key:
    return Key(digest_of(name)[:20])


def all_messages() -> list[m.Message]:
    anna = Contact.at(peer_key(ANNA), FOUR, 0, 0, "ip")
    bert = Contact.at(peer_key(BERT), SIX, 7, 63, "ip")
    seated = Contact.at(peer_key(ANNA), FOUR, 0, 0, "ip", BIRTH.host)
    seated_by_six = Contact.at(peer_key(BERT), FOUR, 0, 0, "ip", birth_host(SIX.host))
    signed = sign_record(ANNA, record_of("anna"))
    rotated = rotation_record(ANNA, BERT, record_of("anna"))
    statement, confirmation = (
        KeyNotary(who, record_of("anna").network).sign_death(peer_key(CARL), 9) for who in (ANNA, BERT)
    )
    death = Death(
        peer=peer_key(CARL),
        incarnation=9,
        accuser=peer_key(ANNA),
        accuser_signature=statement,
        confirmer=peer_key(BERT),
        confirmer_signature=confirmation,
    )
    departure: Departure = KeyNotary(CARL, record_of("carl").network).sign_departure(300)
    big = (1 << 64) - 1
    return [
        m.Ping(id=0),
        m.Pong(id=big),
        m.Ack(id=1),
        m.GetState(id=2, source=anna, target=63, known=70_000),
        m.NeighbourState(id=3, version=1, predecessor=None, successors=()),
        m.NeighbourState(id=4, version=(1 << 32) - 1, predecessor=bert, successors=(anna, bert)),
        m.Unchanged(id=5),
        m.Busy(id=6),
        m.NotMember(id=7),
        m.Notify(id=8, source=bert, target=0),
        m.Find(id=9, key=key("a key")),
        m.Owner(id=10, holders=(anna, bert), records=(signed,)),
        m.Closer(id=11, contacts=(bert,)),
        m.Rumour(id=12, news=(signed, rotated, death, departure)),
        m.Digest(id=13, sums=tuple(number * 16_843_009 for number in range(256))),
        m.Digest(id=46, sums=tuple(number * 16_843_009 for number in range(8))),
        m.DigestDiffers(id=14, buckets=(0, 7, 255)),
        m.Pull(id=15, bucket=255, after=peer_key(ANNA), have=(0, 1, (1 << 32) - 1)),
        m.MemberRecords(id=16, news=(signed,), more=True),
        m.ProbeRequest(id=17, target=anna),
        m.ProbeReply(id=18, is_alive=False),
        m.Accuse(id=19, suspect=bert, incarnation=9, signature=statement),
        m.AliveVerdict(id=20, signature=b""),
        m.DialBackRequest(id=23, udp=4484, tcp=4485),
        m.DialBackReply(id=24, is_reached=True, by_stream=False, is_cold=True),
        m.StrangerDial(id=38, peer=peer_key(BERT), host=FOUR.host, udp=4484, tcp=4485),
        m.StrangerDialled(id=39, is_stranger=True, is_reached=True, by_stream=False),
        m.CallsFail(id=40),
        m.Offer(id=25, marks=(1, big)),
        m.Want(id=26, marks=(int.from_bytes(peer_key(ANNA)[:4], "big") << 32,)),
        m.ShortCall(id=27, service="leases.ask", body=b"\x93\x01\x90\x90"),
        m.ShortAnswer(id=28, outcome=m.ANSWERED, body=b"\x92\x01\x90"),
        m.Closer(id=29, contacts=(seated, seated_by_six)),
        m.AskSeats(id=30, marks=(mark_of(peer_key(ANNA), BIRTH), mark_of(peer_key(BERT), BIRTH))),
        m.SeatsKnown(id=31, words=bytes((0, 1, 2))),
        m.Knock(id=42, called=peer_key(CARL)),
        m.Knocked(id=43, caller=peer_key(ANNA), address=SIX),
        m.Post(id=44, to=peer_key(CARL), data=b"sealed"),
        m.Posted(id=45, source=peer_key(ANNA), data=b"sealed"),
    ]


def handshake_frames() -> Iterator[tuple[str, bytes]]:
    """anna at 192.0.2.1 dials bert at 198.51.100.2; all entropy is `Random("<name> <address>").randbytes`."""
    world = LinkWorld()
    anna, bert = ("192.0.2.1", 4484), ("198.51.100.2", 4484)
    world.add("anna", anna)
    world.add("bert", bert)
    world.links[anna].send(encode_message(m.Ping(id=1)), bert, None, world.now)
    world.settle()
    names = ("hello", "retry", "hello-cookie", "hello-ok", "finish", "data", "data-empty")
    for name, (_, _, _, data) in zip(names, world.log, strict=True):
        yield f"frame-{name}", data
    world.inject(world.log[5][3][:10] + bytes(24), bert, anna)  # a session that anna does not know
    world.settle()
    yield "frame-hint", world.log[-1][3]


def vectors() -> Iterator[tuple[str, bytes]]:
    yield "network", NETWORK
    for name, private in (("anna", ANNA), ("bert", BERT), ("carl", CARL)):
        yield f"private-key-{name}", private.private_bytes_raw()
        yield f"public-key-{name}", peer_key(private)
    yield from handshake_frames()
    yield "frame-nonce", Nonce(network=NETWORK, value=digest_of("nonce")).pack()
    yield "frame-echo", Echo(network=NETWORK, value=digest_of("nonce")).pack()
    record = record_of("anna")
    both_families = replace(record, lines=(Line.at(FOUR), Line(host=SIX.host, udp=0, tcp=SIX.port)), flags=1)
    closed = replace(
        record,
        lines=(Line(host=FOUR.host, udp=0, tcp=0),),
        flags=2,
        relays=tuple(digest_of(name)[:8] for name in ("one", "two", "three")),
    )
    seated = replace(record, seat=BIRTH)
    yield "signed-bytes-record", record_signed_bytes(record)
    yield "record", encode_record(sign_record(ANNA, record))
    yield "record-both-families", encode_record(sign_record(ANNA, both_families))
    trail = (
        Stay(place=bytes((4, 192, 0, 2)), since=20_700),
        Stay(place=bytes((4, 198, 51, 100)), since=20_715),
    )
    yield "record-moved", encode_record(sign_record(ANNA, replace(record, trail=trail)))
    yield "record-closed", encode_record(sign_record(ANNA, closed))
    yield "record-seated", encode_record(sign_record(ANNA, seated))
    yield "record-rotated", encode_record(rotation_record(ANNA, BERT, record))
    for message in all_messages():
        yield f"message-{type(message).__name__}-{message.id}", encode_message(message)


if __name__ == "__main__":
    sys.stdout.writelines(f"{name} {data.hex()}\n" for name, data in vectors())
