"""Would we notice a bug? Cores with one planted each, and the search that must find it.

Every mutant leaves out one thing that the ring (or the toy log) rests on. It is run through storms, seed by
seed, until a checker objects; the unmutated core runs through the same storms and must pass. `simnet mutants`
prints the table.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from msgspec.structs import replace

from dht.core.ids import PeerKey, is_between
from dht.core.machine import RingMachine
from dht.core.messages import Message, NeighbourState, Reply, Rumour
from dht.core.records import RECORD_LIFE_S, Contact, News, Notary, PeerRecord, SignedRecord
from dht.core.ring import VirtualNode, merged
from dht.core.rules import RingRules
from simnet.ringchecks import InvariantBrokenError
from simnet.ringstorm import RingStorm, run
from simnet.runs import Options, run_scenario

Storm = Callable[[int, type[RingMachine]], None]


# --- storms


def any_storm(seed: int, machine_class: type[RingMachine]) -> None:
    run(seed, machine_class=machine_class)


def long_splits(seed: int, machine_class: type[RingMachine]) -> None:
    """Halves apart until each has buried the other; when they meet again, everybody must know everybody."""
    storm = RingStorm(seed, machine_class=machine_class)
    chance = Random(seed)
    for _ in range(2):
        storm.join(chance.getrandbits(16))
        storm.pass_time(30)
    storm.split(chance.getrandbits(16))
    storm.pass_time(600)
    storm.calm()
    storm.checker.everybody_is_known()


def forgeries(seed: int, machine_class: type[RingMachine]) -> None:
    """One peer changes the records of others as it passes them on, and tells them as its own news."""
    storm = RingStorm(seed, machine_class=machine_class)
    chance = Random(seed)
    liar = chance.choice(sorted(storm.world.machines))
    storm.checker.is_honest = False

    def forge(sender: PeerKey, _to: Contact, message: Message) -> Message | None:
        if sender != liar or not isinstance(message, Rumour):
            return message
        return Rumour(id=message.id, news=tuple(map(_raised, message.news)))

    storm.world.tamper = forge
    for _ in range(6):
        storm.join(chance.getrandbits(16))
        storm.pass_time(20)
        storm.restart(chance.getrandbits(16))
        storm.pass_time(20)
    storm.calm()


def _raised(news: News) -> News:
    if not isinstance(news, SignedRecord):
        return news
    return replace(news, record=replace(news.record, incarnation=news.record.incarnation + 1_000))


# --- the planted bugs


class _NeverRectifies(VirtualNode):
    def _rectify(self, source: Contact, now: float) -> None:
        del source, now


class _KeepsItsOldList(VirtualNode):
    """A new first successor goes before the old list instead of bringing its own."""

    def _adopt(self, first: Contact, state: NeighbourState, now: float) -> bool:
        if first in self.successors or not self.successors:
            return super()._adopt(first, state, now)
        old = tuple(c for c in self.successors if c.peer != first.peer)
        self.successors = (first, *old)[: self._host.rules.successors]
        self._changed(now)
        return True


class _TrustsItsPredecessor(VirtualNode):
    """Rectify without asking whether the present predecessor lives."""

    def _rectify(self, source: Contact, now: float) -> None:
        present = self.predecessor
        if present is None or is_between(present.position, source.position, self.contact.position):
            self._set_predecessor(source, now)


class _TakesHearsay(VirtualNode):
    """The successor's predecessor becomes the first successor without having been asked."""

    def _candidate(self, first: Contact, state: NeighbourState) -> Contact | None:
        candidate = super()._candidate(first, state)
        if candidate is not None:
            self.successors = merged(self.contact, candidate, self.successors, self._host.rules.successors)
        return candidate

    def _candidate_answered(
        self, candidate: Contact, first_state: NeighbourState, reply: Reply | None, now: float
    ) -> None:
        del candidate, reply
        self._conclude(first_state, True, now)


class _OneTooFew(VirtualNode):
    def _adopt(self, first: Contact, state: NeighbourState, now: float) -> bool:
        adopted = merged(self.contact, first, state.successors[:-1], self._host.rules.successors - 1)
        if adopted == self.successors:
            return False
        self.successors = adopted
        self._changed(now)
        return True


class _NeverRefutes(RingMachine):
    def _refute(self, incarnation: int, now: float) -> None:
        del incarnation, now


class _ReusesNumbers(RingMachine):
    """A new record under the old incarnation."""

    def _renew_record(self, above: int, now: float) -> None:
        del above
        self._record = replace(self._record, issued_s=int(now), expires_s=int(now) + RECORD_LIFE_S)
        self.table.put(self._host.notary.sign_record(self._record))


class _Trusting:
    """A notary that finds every record signed."""

    def __init__(self, notary: Notary) -> None:
        self._notary = notary

    def __getattr__(self, name: str) -> object:
        return getattr(self._notary, name)

    def is_record_signed(self, signed: SignedRecord) -> bool:
        del signed
        return True


class _ChecksNoSignature(RingMachine):
    def __init__(self, *, record: PeerRecord, rules: RingRules, notary: Notary, random: Random) -> None:
        trusting: Notary = _Trusting(notary)  # type: ignore[assignment]  # the rest is passed on by name
        super().__init__(record=record, rules=rules, notary=trusting, random=random)


def _machine_of(node: type[VirtualNode]) -> type[RingMachine]:
    return type(f"Machine{node.__name__}", (RingMachine,), {"node_class": node})


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    name: str
    bug: str
    attempt: Callable[[int], str | None]  # from a seed: a checker's complaint, if any


def _in_ring(name: str, bug: str, machine_class: type[RingMachine], storm: Storm = any_storm) -> Mutant:
    def attempt(seed: int) -> str | None:
        try:
            storm(seed, machine_class)
        except InvariantBrokenError as error:
            return str(error)
        return None

    return Mutant(name=name, bug=bug, attempt=attempt)


def _toy_log(seed: int, sync: str = "0") -> str | None:
    from simnet.scenarios import find_scenario

    report, _ = run_scenario(find_scenario("toy-log"), Options(seed=seed, settings={"sync": sync}))
    told = report.violation
    return None if told is None else f"{told['checker']}: {told['detail']}"


MUTANTS = (
    _in_ring("no-rectify", "nobody ever takes a predecessor", _machine_of(_NeverRectifies)),
    _in_ring("partial-list", "a new successor is put before the old list", _machine_of(_KeepsItsOldList)),
    _in_ring(
        "no-ping", "the old predecessor is not asked whether it lives", _machine_of(_TrustsItsPredecessor)
    ),
    _in_ring("hearsay", "a candidate becomes successor unasked", _machine_of(_TakesHearsay)),
    _in_ring("off-by-one", "lists are one entry short", _machine_of(_OneTooFew)),
    _in_ring("no-refutation", "a peer that is called dead does not object", _NeverRefutes, long_splits),
    _in_ring("unverified", "records are believed unsigned", _ChecksNoSignature, forgeries),
    _in_ring("same-number", "a new record has the old one's number", _ReusesNumbers),
    Mutant(name="no-fsync", bug="the toy log acknowledges before it syncs", attempt=_toy_log),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Catch:
    mutant: str
    bug: str
    seed: int | None  # the first seed that found it
    said: str


def hunt(seeds_max: int = 200, names: tuple[str, ...] = ()) -> Iterator[Catch]:
    for mutant in MUTANTS:
        if names and mutant.name not in names:
            continue
        found, said = None, ""
        for seed in range(1, seeds_max + 1):
            told = mutant.attempt(seed)
            if told is not None:
                found, said = seed, told
                break
        yield Catch(mutant=mutant.name, bug=mutant.bug, seed=found, said=said)


def sound(seed: int) -> str | None:
    """Run the unmutated core through every storm of this seed. Returns a checker's complaint, or None."""
    for storm in (any_storm, long_splits, forgeries):
        try:
            storm(seed, RingMachine)
        except InvariantBrokenError as error:
            return f"{storm.__name__}: {error}"
    return _toy_log(seed, sync="1")
