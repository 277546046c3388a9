"""Who is at the other end of an address, and how do payloads get there sealed?

`SessionKeeper` is the handshake's and the sessions' machine: datagrams and time in; datagrams (`outgoing`), reports
(`events`) and opened payloads out. It performs no I/O, so a transcript in virtual time can lose any frame of
it. It knows nothing of messages: a payload is bytes. `docs/protocol/ring.md` §2–§4 is its theory.

The initiator's handshakes are `Dials`, in three phases; the responder's have one phase and are in `HalfOpenTable`.

Two rules keep strangers cheap. Before an address has shown with a cookie that it hears us, we begin no handshake with
it and make and check no signature; and what we send there is bounded by what came from there (`StrangerReplies`).
A third keeps us from being aimed at others: an address that never answered us is dialled rarely (`Unanswered`).
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dht.core.dials import COOKIES_MAX, Dial, Dials
from dht.core.frames import (
    DATA,
    DATAGRAM_BYTES_MAX,
    FINISH,
    MAGIC,
    PAYLOAD_BYTES_MAX,
    SEALED_HEADER_BYTES,
    TAG_BYTES,
    Address,
    DatagramHello,
    Echo,
    HelloOk,
    Hint,
    Nonce,
    Retry,
    pack_finish,
    parse_finish,
    parse_greeting,
)
from dht.core.half_open import HalfOpen, HalfOpenTable
from dht.core.handshake import (
    CookieJar,
    answer_hello,
    check_hello_ok,
    ephemeral_public,
    is_finish_signed,
    raw_public_key,
    sign_finish,
)
from dht.core.limits import Buckets, Rate
from dht.core.sessions import Session, SessionTable
from dht.core.strangers import LinkLimits, StrangerReplies
from dht.core.unanswered import Unanswered

DIAL_QUEUE_MAX: Final = 32
_REDIAL: Final = Rate(per_second=1 / 30, burst=2)  # handshakes that hints may cause, per address
SWEEP_S: Final = 60.0
EVENTS_MAX: Final = 4_096
SEALED_BYTES_MIN: Final = SEALED_HEADER_BYTES + TAG_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOpened:
    """Both keys and both addresses are proven. `seen` is how the responder saw us, if we dialled."""

    session: Session
    seen: Address | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DialFailed:
    """No handshake: `silence`, or what the other end did wrong. `lost` payloads were waiting for it."""

    address: Address
    public_key: bytes | None
    reason: str
    lost: int


LinkEvent = SessionOpened | DialFailed


class SessionKeeper:
    """All handshakes and sessions of one peer. Not for use from several tasks at once."""

    def __init__(
        self,
        *,
        key: Ed25519PrivateKey,
        network: bytes,
        record: Callable[[], bytes],
        is_record_good: Callable[[bytes, bytes], bool],
        entropy: Callable[[int], bytes],
        limits: LinkLimits | None = None,
        spared: bytes = b"",
    ) -> None:
        """`record()` gives our encoded record, `is_record_good(record, public_key)` judges another's;
        `entropy(n)` gives n secret random bytes (`os.urandom`, or a seeded stand-in in a simulation);
        `spared` is for `Unanswered`.
        """
        self.public_key = raw_public_key(key)
        self.outgoing: list[tuple[bytes, Address]] = []
        self.events: list[LinkEvent] = []
        self.dropped: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.limits = limits or LinkLimits()
        self.unanswered = Unanswered(spared)
        self.sessions = SessionTable(self.limits.sessions_max)
        self._key = key
        self._network = network
        self._record = record
        self._is_record_good = is_record_good
        self._entropy = entropy
        self.strangers = StrangerReplies(
            network=network,
            limits=self.limits,
            cookies=CookieJar(entropy(32)),
            put=lambda frame, address: self.outgoing.append((frame, address)),
            dropped=self.dropped,
            done=self.done,
        )
        self._redials = Buckets()
        self._dials = Dials()
        self._half_open = HalfOpenTable()
        self._sweep_at = 0.0

    # --- sending

    def send(
        self,
        payload: bytes,
        address: Address,
        public_key: bytes | None,
        now: float,
        *,
        is_chosen: bool = False,
    ) -> bool:
        """Seals it if there is a session, otherwise dials, as `dial` says. False: refused and counted (bounds)."""
        session = self.sessions.at(address)
        if (
            session is not None
            and now < session.rekey_at
            and not session.is_doubtful
            and (public_key is None or session.public_key == public_key)
        ):
            if len(payload) > PAYLOAD_BYTES_MAX:
                self.dropped["too_large"] += 1
                return False
            self.outgoing.append((session.seal(payload), address))
            return True
        return self._send_slowly(session, payload, address, public_key, now, is_chosen=is_chosen)

    def _send_slowly(
        self,
        session: Session | None,
        payload: bytes,
        address: Address,
        public_key: bytes | None,
        now: float,
        *,
        is_chosen: bool,
    ) -> bool:
        if len(payload) > PAYLOAD_BYTES_MAX:
            self.dropped["too_large"] += 1
            return False
        is_usable = (
            session is not None
            and now < session.expires_at
            and (public_key is None or session.public_key == public_key)
        )
        dial = self.dial(address, public_key, now, is_chosen=is_chosen)
        if session is not None and is_usable and (dial is None or not session.is_doubtful):
            self.outgoing.append((session.seal(payload), address))  # rekeying continues meanwhile
            return True
        if dial is None:
            return False
        if dial.session is not None:
            self.outgoing.append((dial.session.seal(payload), address))
            return True
        if len(dial.waiting) >= DIAL_QUEUE_MAX:
            self.dropped["dial_queue"] += 1
            return False
        dial.waiting.append(payload)
        return True

    def dial(
        self, address: Address, public_key: bytes | None, now: float, *, is_chosen: bool = False
    ) -> Dial | None:
        """Starts a handshake unless one is under way; None: too many, for another key, or with an address that never
        answered and had its share.  `is_chosen`: it is no stranger who names this address.
        """
        dial = self._dials.at(address)
        if dial is not None:
            expected = dial.session.public_key if dial.session is not None else dial.expected
            if public_key is not None and expected not in (None, public_key):
                self.dropped["dial_conflict"] += 1
                return None
            dial.expected = dial.expected or public_key
            dial.is_once = dial.is_once and not is_chosen
            return dial
        if self._dials.is_full:
            self.dropped["dials"] += 1
            return None
        is_once = not is_chosen and not self.unanswered.has_answered(address)
        refusal = self.unanswered.refusal(address, now) if is_once else None
        if refusal is not None:
            self.dropped[refusal] += 1
            return None
        secret = self._entropy(32)
        hello = DatagramHello(
            network=self._network,
            initiator_id=self._entropy(8),
            public_key=self.public_key,
            ephemeral=ephemeral_public(secret),
        )
        dial = Dial(
            address=address,
            expected=public_key,
            hello=hello,
            secret=secret,
            frame=hello.pack(),
            is_once=is_once,
        )
        self._dials.add(dial)
        self.done["dials"] += 1
        self._transmit(dial, now)
        return dial

    def moved(self) -> None:
        """Our own address is another: whoever knows a session of ours at the old one drops what comes from here. What
        is sent next waits for a handshake from where we are.
        """
        for session in self.sessions:
            session.is_doubtful = True

    def _transmit(self, dial: Dial, now: float) -> None:
        if dial.session is not None:  # sealed again each time: a counter is accepted once
            self.outgoing.append((dial.session.seal(dial.finish, FINISH), dial.address))
        else:
            self.outgoing.append((dial.frame, dial.address))
        self._dials.arm(dial, now)

    # --- time

    def next_deadline(self) -> float | None:
        return self._dials.next_deadline()

    def advance(self, now: float) -> None:
        for dial in self._dials.due(now):
            if dial.is_given_up:
                self._fail(dial, "silence")
            elif dial.is_once:
                self._dials.arm(dial, now)
            else:
                self.done["repeated"] += 1
                self._transmit(dial, now)
        if now >= self._sweep_at:
            self._sweep_at = now + SWEEP_S
            self.done["expired"] += len(self.sessions.sweep(now))
            self._sweep_half_open(now)

    def _sweep_half_open(self, now: float) -> None:
        swept = self._half_open.sweep(now)
        if swept:
            self.dropped["half_open"] += swept

    def _fail(self, dial: Dial, reason: str) -> None:
        self._dials.remove(dial)
        self.unanswered.closed(dial.address)
        self.dropped[f"dial_{reason}"] += 1
        session = self.sessions.at(dial.address)
        if session is not None:
            session.is_doubtful = False
        if dial.session is not None:
            self.sessions.remove(dial.session)
        self._report(
            DialFailed(address=dial.address, public_key=dial.expected, reason=reason, lost=len(dial.waiting))
        )

    def _report(self, event: LinkEvent) -> None:
        if len(self.events) < EVENTS_MAX:
            self.events.append(event)
        else:
            self.dropped["events"] += 1

    # --- receiving

    def receive(self, data: bytes, address: Address, now: float) -> tuple[Session, bytes] | None:
        """The payload of a DATA frame and its session. Handshakes are answered into `outgoing`."""
        size_bytes = len(data)
        if (
            SEALED_BYTES_MIN <= size_bytes <= DATAGRAM_BYTES_MAX
            and data[1] == DATA
            and data[0] == MAGIC
            and (session := self.sessions.by_id(data[2:10])) is not None
            and now < session.expires_at
        ):
            session.used_at = now
            payload = session.open(data)
            if payload.__class__ is bytes and session.address == address and payload:
                if session.is_initiator and address in self._dials:
                    self._confirm(session)
                return session, payload
            self._receive_odd(session, payload, address, size_bytes, now)
            return None
        self._receive_slowly(data, address, now)
        return None

    def _receive_odd(
        self, session: Session, payload: bytes | str, address: Address, size_bytes: int, now: float
    ) -> None:
        """What did not open, came from elsewhere, or is empty."""
        if isinstance(payload, str):
            self.dropped[payload] += 1
        elif session.address != address:
            self.dropped["moved"] += 1  # the peer's address has changed: it must shake hands from there
            self.strangers.ledger.received(address, size_bytes)
            self.strangers.hint(session.local_id, address, now)
        elif session.is_initiator:
            self._confirm(session)

    def _confirm(self, session: Session) -> None:
        """A sealed frame from the responder: it has our FINISH."""
        dial = self._dials.at(session.address)
        if dial is None or dial.session is not session:
            return
        self._dials.remove(dial)
        self.done["confirmed"] += 1

    def _receive_slowly(self, data: bytes, address: Address, now: float) -> None:
        if len(data) >= SEALED_BYTES_MIN and data[0] == MAGIC and data[1] in (DATA, FINISH):
            if len(data) > DATAGRAM_BYTES_MAX:
                self.dropped["oversized"] += 1
                return
            self.strangers.ledger.received(address, len(data))
            self._receive_unsettled(data, address, now)
            return
        frame = parse_greeting(data, self._network)
        if isinstance(frame, str):
            self.dropped[frame] += 1
            return
        self.strangers.ledger.received(address, len(data))
        match frame:
            case DatagramHello():
                self._on_hello(frame, data, address, now)
            case Retry():
                self._on_retry(frame, address, now)
            case HelloOk():
                self._on_hello_ok(frame, address, now)
            case Hint():
                self._on_hint(frame, address, now)
            case Nonce():
                self.strangers.echo(frame, address, now)
            case Echo():
                self.dropped["unasked"] += 1  # those that are awaited go to a socket of their own

    # --- the responder's side

    def _on_hello(self, hello: DatagramHello, data: bytes, address: Address, now: float) -> None:
        if hello.public_key == self.public_key:
            self.dropped["self"] += 1
            return
        known = self._half_open.answer_to(data, hello.initiator_id, address)
        if known is not None:
            self.strangers.reply(known, address)
            return
        if not self.strangers.has_cookie(hello, address, now):
            return
        self.unanswered.answered(address)
        dial = self._dials.at(address)
        # Both have dialled each other. The one with the smaller key stays the initiator and the other answers: of
        # two sessions each side might use another one.
        if dial is not None and dial.session is None and self.public_key < hello.public_key:
            if (
                dial.is_once and not dial.is_given_up
            ):  # ours was lost, perhaps at a router that theirs has opened
                dial.is_once = False
                self._transmit(dial, now)
            self.dropped["yielded"] += 1
            return
        if not self.strangers.may_begin(address, now):
            return
        self._answer(hello, data, address, now)

    def _answer(self, hello: DatagramHello, data: bytes, address: Address, now: float) -> None:
        secret = self._entropy(32)
        ok = HelloOk(
            network=self._network,
            initiator_id=hello.initiator_id,
            responder_id=self._entropy(8),
            public_key=self.public_key,
            ephemeral=ephemeral_public(secret),
            seen=address,
            record=self._record(),
        )
        answered = answer_hello(data, ok=ok, secret=secret, their_ephemeral=hello.ephemeral, key=self._key)
        if answered is None:
            self.dropped["handshake"] += 1
            return
        frame, agreement = answered
        session = Session(
            local_id=ok.responder_id,
            remote_id=hello.initiator_id,
            public_key=hello.public_key,
            address=address,
            keys=agreement.keys,
            record=b"",
            is_initiator=False,
            now=now,
        )
        self._half_open.add(session, data, frame, agreement.transcript, now)
        self._sweep_half_open(now)
        self.strangers.reply(frame, address)

    def _receive_unsettled(self, data: bytes, address: Address, now: float) -> None:
        """A sealed frame that is a FINISH, or whose session is half-open, expired or unknown."""
        local_id = data[2:10]
        half = self._half_open.at(local_id, now)
        if half is not None:
            if data[1] == FINISH:
                self._on_finish(half, data, address, now)
            else:
                self.dropped["early"] += 1
            return
        session = self.sessions.by_id(local_id)
        if session is not None and now < session.expires_at:
            if data[1] == FINISH:
                self._on_repeated_finish(session, data, address)
            return
        self.dropped["unknown"] += 1
        self.strangers.hint(local_id, address, now)

    def _on_finish(self, half: HalfOpen, data: bytes, address: Address, now: float) -> None:
        session = half.session
        assert not session.is_initiator, "only a responder waits for FINISH"
        plain = session.open(data) if address == session.address else "moved"
        if isinstance(plain, str):
            self.dropped[plain] += 1
            return
        self._half_open.forget(session.local_id)  # good or bad, there is no second one
        parsed = parse_finish(plain)
        if parsed is None or not is_finish_signed(session.public_key, parsed[0], half.transcript):
            self.dropped["signature"] += 1
            return
        if parsed[1] and not self._is_record_good(parsed[1], session.public_key):
            self.dropped["record"] += 1
            return
        session.record = parsed[1]
        self._open_session(session, None, now)
        self.outgoing.append((session.seal(b""), address))
        dial = self._dials.at(address) or self._dials.expecting(session.public_key, address[0])
        if dial is not None and dial.session is None and dial.expected in (None, session.public_key):
            self._dials.remove(dial)
            self.unanswered.closed(dial.address)
            self.dropped["yielded"] += 1
            self.outgoing.extend((session.seal(payload), address) for payload in dial.waiting)

    def _on_repeated_finish(self, session: Session, data: bytes, address: Address) -> None:
        """Our empty DATA was lost. A peer that can seal under these keys was checked before."""
        opened = session.open(data)
        if isinstance(opened, str):
            self.dropped[opened] += 1
        elif address != session.address or session.is_initiator:
            self.dropped["moved"] += 1
        else:
            self.outgoing.append((session.seal(b""), address))

    def _open_session(self, session: Session, seen: Address | None, now: float) -> None:
        self.strangers.ledger.forget(session.address)
        self.unanswered.answered(session.address)
        if self.sessions.add(session, now) is not None:
            self.dropped["sessions_evicted"] += 1
        self.done["opened"] += 1
        self._report(SessionOpened(session=session, seen=seen))

    # --- the initiator's side

    def _on_retry(self, retry: Retry, address: Address, now: float) -> None:
        dial = self._dials.at(address)
        if dial is None or dial.hello.initiator_id != retry.initiator_id or dial.session is not None:
            self.dropped["unasked"] += 1
            return
        self.unanswered.answered(address)
        dial.is_once = False
        if dial.hello.cookie == retry.cookie:
            return  # a late answer to a repeated HELLO: nothing new
        if dial.cookies == COOKIES_MAX:
            self.dropped["cookies"] += 1
            return
        dial.cookies += 1
        dial.hello = dial.hello._replace(cookie=retry.cookie)
        dial.frame = dial.hello.pack()
        dial.tries = 0
        self._transmit(dial, now)

    def _on_hello_ok(self, ok: HelloOk, address: Address, now: float) -> None:
        dial = self._dials.at(address)
        if dial is None or dial.hello.initiator_id != ok.initiator_id or dial.session is not None:
            self.dropped["unasked"] += 1
            return
        agreement = check_hello_ok(dial.frame, ok=ok, secret=dial.secret)
        if agreement is None:
            self.dropped["signature"] += 1  # the dial continues: the true answer may still come
            return
        if ok.public_key == self.public_key:
            self._fail(dial, "self")
            return
        if dial.expected not in (None, ok.public_key):
            older = self.sessions.at(address)
            if older is not None and older.public_key != ok.public_key:
                self.sessions.remove(older)  # somebody else lives there now, and has proven it
            self._fail(dial, "wrong_peer")
            return
        if ok.record and not self._is_record_good(ok.record, ok.public_key):
            self._fail(dial, "record")
            return
        session = Session(
            local_id=dial.hello.initiator_id,
            remote_id=ok.responder_id,
            public_key=ok.public_key,
            address=address,
            keys=agreement.keys,
            record=ok.record,
            is_initiator=True,
            now=now,
        )
        dial.session, dial.is_once = session, False
        dial.finish = pack_finish(sign_finish(self._key, agreement.transcript), self._record())
        self._open_session(session, ok.seen, now)
        dial.tries = 0  # FINISH, until the responder has been heard
        self._transmit(dial, now)
        self.outgoing.extend((session.seal(payload), session.address) for payload in dial.waiting)
        dial.waiting.clear()

    def _on_hint(self, hint: Hint, address: Address, now: float) -> None:
        session = self.sessions.at(address)
        if session is None or session.remote_id != hint.session_id:
            self.dropped["unasked"] += 1
            return
        if not self._redials.take(("redial", address), _REDIAL, now):
            self.dropped["flood"] += 1
            return
        waiting: list[bytes] = []
        current = self._dials.at(address)
        if current is not None and current.session is session:  # it lost our half-open handshake
            self._dials.remove(current)
            self.sessions.remove(session)
            waiting = current.waiting
        dial = self.dial(address, session.public_key, now)
        if dial is not None:
            # A HINT is not signed, so it ends no session: payloads wait until a handshake has shown who is there, and
            # the session continues if nobody answers.
            session.is_doubtful = True
            dial.waiting.extend(waiting)
