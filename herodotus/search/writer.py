"""How do the words of new captures come into the index, and those of removed ones out of it?

One capture at a time while a URL only gets newer; where a capture came late or went, all spells of its URL are derived
again from the archive. So whatever came in which order, and however often a part is done again, the documents are those
of an index that was filled from the start. Synchronous, a step at a time; only disks are waited for.

Of the captures that a peer holds it takes in those for whose words others ask it, and those that `stay`: no other peer
gets them, so nobody else has their words. A URL of which one capture stays is in with all of them.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import groupby, islice
from typing import Final

import msgspec

from dht.core.arcs import NONE, Arcs
from herodotus.core.index_rows import KEY_BYTES
from herodotus.core.removals import DIGEST, HOST, PREFIX, URL, Removals, Subject
from herodotus.core.search.cover import CIRCLE, PLACE_BYTES, Arc, arcs_of, keys_of, part_of_circle
from herodotus.core.search.fields import spell_id
from herodotus.core.search.spells import Newest, Step, spells, step
from herodotus.search.documents import Page, document_of
from herodotus.search.index import IndexState, WordIndex
from herodotus.store import ArchiveChanges, Changes, StoredCapture

CAPTURES_A_STEP: Final = 64
"""Some 60 ms of work; between two steps the peer's other work has its turn."""
KEYS_A_STEP: Final = 4_096
"""Of the archive's index, when all of it is compared: 20 ms."""
COMMIT_CAPTURES: Final = 4_096
COMMIT_S: Final = 20.0
"""A commit of 4,096 pages takes a second or two. With a look every 10 s before and after, a capture is found within
40 s of its arrival, and within a minute on a busy machine."""
WAITING_MAX: Final = 100_000
"""Captures, or URLs that are to be derived again, some 70 bytes each; if more wait, everything is compared."""
Rules = tuple[tuple[str, str], ...]


class Writer:
    """Brings one index up to the archive and keeps it there. `take` it all changes in the order in which they were
    told; then `step` until there is nothing left."""

    def __init__(
        self,
        words: WordIndex,
        changes: ArchiveChanges,
        tail: int,
        now: Callable[[], float],
        *,
        stays: Callable[[StoredCapture], bool] | None = None,
    ) -> None:
        """`tail`: of `ArchiveChanges.begin`. `stays`: None where all captures spread."""
        self.words = words
        self._changes = changes
        self._now = now
        self._stays = stays
        self._came: deque[bytes] = deque()
        self._turned: dict[bytes, None] = {}
        """Places of URLs whose spells are to be derived again."""
        self._written: dict[int, Newest | None] = {}
        """Of the URLs that were written since the last commit."""
        self._captures = 0
        """Read since the last commit."""
        self._since: float | None = None
        """When the first of them was read."""
        self._is_urgent = False
        self._told = tail
        self._compared: bytes | None = None
        """Up to which key the archive was compared; None: it need not be."""
        self._compared_from = 0
        self._begin(tail)

    # -- what changed -------------------------------------------------------------------------------------

    def _begin(self, tail: int) -> None:
        words, state = self.words, self.words.state
        incarnation = self._changes.incarnation.hex()
        if state.incarnation != incarnation:
            if words.documents:
                words.delete_all()
            removed = self._changes.removed
            erased = () if removed.erased is None else rules_of(removed.erased)
            state = IndexState(incarnation=incarnation, rules=rules_of(removed), erased=erased)
        else:
            if state.walked is not None:
                # Documents behind the place that the state names were committed before a kill.
                words.delete_behind(_number(bytes.fromhex(state.walked)))
            if not state.is_clean or state.tail != tail:
                self._compare_from(state.tail)
        self._state = msgspec.structs.replace(state, is_clean=False)
        self._extent = state.extent
        self._follow_rules()
        words.commit(self._state)  # from now on a kill is noticed

    def take(self, changes: Changes) -> None:
        if not changes.is_whole or len(self._came) > WAITING_MAX:
            self._came.clear()
            self._compare_from(self._state.tail)
        self._came.extend(changes.came)
        for key in changes.gone:
            self._turn(key)
        self._told = changes.tail

    def _turn(self, key: bytes) -> None:
        self._turned[key[:PLACE_BYTES]] = None
        if len(self._turned) > WAITING_MAX:
            self._turned.clear()
            self._compare_from(0)

    def _compare_from(self, arrival: int) -> None:
        self._compared_from = arrival if self._compared is None else min(arrival, self._compared_from)
        self._compared = b""

    def follow_rules(self) -> bool:
        """What was removed meanwhile, or is shown again. Whether anything changed."""
        changed = self._follow_rules()
        self._is_urgent = self._is_urgent or changed
        return changed

    def _follow_rules(self) -> bool:
        before, now = set(self._state.rules), set(rules_of(self._changes.removed))
        for kind, name in sorted(before ^ now):
            if kind == HOST and (kind, name) in now:
                self.words.delete_host(name)
            else:
                for position in self._changes.positions_under(Subject(kind, name)):
                    self._turn(position)
        self._state = msgspec.structs.replace(self._state, rules=tuple(sorted(now)))
        return before != now

    def follow_ring(self, wanted: Arcs, unix_s: int) -> None:
        """The keys for which others ask this peer now."""
        extent = self._extent.towards(wanted, unix_s)
        walked = self._state.walked
        if walked is not None:
            # What lies behind the walk's place is read by the rule of then.
            extent = replace(extent, todo=extent.todo & _up_to(walked))
        is_other = extent.arcs != self._extent.arcs
        self._extent = extent
        if is_other:
            self.commit()  # nothing is deleted for which it is still answered

    def erased(self, rules: Rules) -> None:
        """No word of these is left in the files."""
        self._state = msgspec.structs.replace(self._state, erased=rules)
        self.commit()

    # -- steps --------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Some captures further, with a commit where it is due. False: nothing is left to do now."""
        has_more = self._step()
        if self._is_due(has_more=has_more):
            self.commit()
        return has_more

    def _step(self) -> bool:
        if self._turned:
            for place in [*islice(self._turned, CAPTURES_A_STEP)]:
                del self._turned[place]
                if self._is_walked(place):
                    self._read(self._derive(place))
            return True
        if self._came:
            for _ in range(min(CAPTURES_A_STEP, len(self._came))):
                key = self._came.popleft()
                if self._is_walked(key):
                    self._read(self._take_in(key))
            return True
        if self._compared is not None:
            self._compare(self._compared)
            return True
        if self._state.walked is not None:
            self._walk(bytes.fromhex(self._state.walked))
            return True
        if self._extent.todo:
            self._put_right()
            return True
        return False

    def _read(self, captures: int) -> None:
        if self._since is None:
            self._since = self._now()
        self._captures += captures

    def _is_due(self, *, has_more: bool) -> bool:
        if self._is_urgent and not self._turned:
            return True
        is_old = self._since is not None and self._now() - self._since >= COMMIT_S
        was_filled = self.words.state.walked is None and not self.words.state.todo
        is_filled = self._state.walked is None and not self._extent.todo and not was_filled
        return self._captures >= COMMIT_CAPTURES or is_old or (is_filled and not has_more)

    @property
    def waiting(self) -> int:
        """Captures that are known to be read yet; not those of a walk."""
        return len(self._came) + len(self._turned) + self._captures

    @property
    def has_followed_rules(self) -> bool:
        """Nothing that is removed is in the index, as it is committed."""
        return not (self._turned or self._is_urgent) and self._state.rules == self.words.state.rules

    @property
    def is_level(self) -> bool:
        """The index has all that the archive has."""
        is_idle = not (self._came or self._turned or self._captures or self._is_urgent)
        return is_idle and self.is_walked and not self._extent.todo

    @property
    def is_walked(self) -> bool:
        return self._compared is None and self._state.walked is None

    @property
    def share(self) -> float:
        """Of the archive, in the order of the ring; else of the arcs whose words it should have."""
        walked = self._state.walked
        at = self._compared if walked is None else bytes.fromhex(walked)
        if at is not None:
            return _number(at.ljust(PLACE_BYTES, b"\0")) / 2**64
        lacking = self._extent.lacking
        return (
            1 - part_of_circle(arcs_of(lacking)) / part_of_circle(arcs_of(self._extent.arcs))
            if lacking
            else 1.0
        )

    def commit(self, *, is_last: bool = False) -> None:
        """`is_last`: nothing is told any more."""
        if not (self._came or self._turned) and self._compared is None:
            self._state = msgspec.structs.replace(self._state, tail=self._told)
        is_clean = is_last and self.is_walked and not (self._came or self._turned)
        self._state = self._state.with_extent(self._extent)
        self.words.commit(msgspec.structs.replace(self._state, is_clean=is_clean))
        self._written.clear()
        self._captures, self._since, self._is_urgent = 0, None, False

    # -- one URL ------------------------------------------------------------------------------------------

    def _is_walked(self, key: bytes) -> bool:
        """What lies behind the walk's place is read when the walk comes there."""
        walked = self._state.walked
        return walked is None or key[:PLACE_BYTES] <= bytes.fromhex(walked)

    def _newest(self, position: int) -> Newest | None:
        return self._written[position] if position in self._written else self.words.newest(position)

    def _take_in(self, key: bytes) -> int:
        place, extent = key[:PLACE_BYTES], self._extent
        is_wanted = place in extent.arcs
        if place in extent.todo or not (is_wanted or self._stays):
            return 0
        capture = self._changes.capture(key)
        if capture is None:
            return 0
        if not is_wanted and self._newest(_number(place)) is None:
            return 1 + (self._derive(key) if self._stays and self._stays(capture) else 0)
        page = Page(capture)
        newest = self._newest(page.position)
        match step(newest, page.time_s, page.digest, is_latest=self._changes.is_latest(key)):
            case Step.NOTHING:
                return 1
            case Step.BEGINS:
                self._write(page)
                return 1
            case Step.FOLLOWS:
                assert newest is not None
                before = self._changes.newest_at(key, newest.first_s)
                closed = None if before is None else Page(before)
                if closed is not None and closed.digest == newest.digest:
                    self.words.delete(spell_id(closed.position, closed.time_s))
                    self.words.add(document_of(self.words.schema, closed, page.time_s))
                    self._write(page)
                    return 2
            case Step.DERIVES:
                pass
        return 1 + self._derive(key)

    def _write(self, page: Page) -> None:
        self.words.add(document_of(self.words.schema, page))
        self._written[page.position] = Newest(page.time_s, page.digest)

    def _derive(self, key: bytes) -> int:
        """All spells of a URL. How many captures it has."""
        place = key[:PLACE_BYTES]
        self.words.delete_url(_number(place))
        self._written[_number(place)] = None
        return self._add_wanted(place, self._changes.shown(place, _behind(place)))

    def _add_wanted(self, place: bytes, captures: Iterable[StoredCapture]) -> int:
        """`_add`, unless neither others ask this peer for the URL nor a capture of it stays."""
        if place in self._extent.arcs:
            return self._add(captures)
        if self._stays is not None and any(map(self._stays, captures)):
            return 1 + self._add(self._changes.shown(place, _behind(place)))
        return 1

    def _add(self, captures: Iterable[StoredCapture]) -> int:
        """The spells of one URL, of which the index has none."""
        count = 0

        def pages() -> Iterator[tuple[int, int, Page]]:
            nonlocal count
            for capture in captures:
                count += 1
                page = Page(capture)
                yield page.time_s, page.digest, page

        for _, until_s, page in spells(pages()):
            self.words.add(document_of(self.words.schema, page, until_s))
            self._written[page.position] = Newest(page.time_s, page.digest)
        return count

    # -- walks --------------------------------------------------------------------------------------------

    def _walk(self, walked: bytes) -> None:
        """The next URLs of an index that is being filled."""
        start = _behind(walked) if walked else b""
        read, is_end = 0, True
        if start is not None:
            for place, captures in groupby(self._changes.shown(start), key=_place_of):
                if read >= CAPTURES_A_STEP:
                    is_end = False
                    break
                read += self._add_wanted(place, captures)
                walked = place
        self._read(read)
        self._state = msgspec.structs.replace(self._state, walked=None if is_end else walked.hex())

    def _put_right(self) -> None:
        """The next URLs of an arc that others began to ask this peer for, or ended to. First what it should have."""
        extent = self._extent
        start, end = (extent.lacking or extent.todo).pieces()[0]
        behind = start[:PLACE_BYTES] + b"\xff" * (KEY_BYTES + 8) if start else b""
        keys = self._changes.keys(behind, CAPTURES_A_STEP)
        last = end[:PLACE_BYTES]
        if len(keys) == CAPTURES_A_STEP:
            last = min(last, keys[-1][0][:PLACE_BYTES])
        low = _number(start) + 1 if start else 0
        self.words.delete_between(low, _number(last))
        read = 0
        begin = low.to_bytes(PLACE_BYTES, "big")
        for place, captures in groupby(self._changes.shown(begin, _behind(last)), key=_place_of):
            self._written[_number(place)] = None
            read += self._add_wanted(place, captures)
        self._read(read)
        done = keys_of([Arc(low - 1 if low else CIRCLE - 1, _number(last))])
        self._extent = replace(extent, todo=extent.todo - done)

    def _compare(self, compared: bytes) -> None:
        """The next of the archive's keys with what the index says of these URLs. A URL in doubt is derived again."""
        start = compared + b"\xff" * (KEY_BYTES + 8) if compared else b""
        keys = self._changes.keys(start, KEYS_A_STEP)
        is_end = len(keys) < KEYS_A_STEP
        last = keys[-1][0][:PLACE_BYTES] if keys else b""
        times: dict[bytes, set[int]] = {}
        for key, arrival in keys:
            if is_end or key[:PLACE_BYTES] != last:
                times.setdefault(key[:PLACE_BYTES], set()).add(_second_of(key))
                if arrival >= self._compared_from:
                    self._turn(key)
        if not is_end and not times:  # one URL with more captures than that
            times[last] = set()
            self._turn(last)
        low = _number(compared) + 1 if compared else 0
        high = 2**64 - 1 if is_end else _number(max(times))
        for position, first_s in self.words.firsts_between(low, high):
            place = position.to_bytes(PLACE_BYTES, "big")
            if first_s not in times.get(place, ()):
                self._turn(place)
        self._compared = None if is_end else max(times)


def rules_of(removals: Removals) -> Rules:
    """The subjects of the rules."""
    subjects = [(HOST, name) for name in removals.hosts.hosts]
    subjects += [(URL, f"https://{name}") for name in removals.pages]
    subjects += [(PREFIX, f"https://{name}") for names in removals.prefixes.values() for name in names]
    subjects += [(DIGEST, f"sha256:{digest.hex()}") for digest in removals.digests]
    return tuple(sorted(subjects))


def _number(place: bytes) -> int:
    return int.from_bytes(place[:PLACE_BYTES], "big")


def _behind(place: bytes) -> bytes | None:
    """Where the next one begins; None at the end of the ring."""
    following = _number(place) + 1
    return None if following == 2**64 else following.to_bytes(PLACE_BYTES, "big")


def _place_of(capture: StoredCapture) -> bytes:
    return capture.id.key[:PLACE_BYTES]


def _up_to(walked: str) -> Arcs:
    """The keys from zero to a walk's place."""
    return keys_of([Arc(CIRCLE - 1, _number(bytes.fromhex(walked)))]) if walked else NONE


def _second_of(key: bytes) -> int:
    return int.from_bytes(key[KEY_BYTES : KEY_BYTES + 4], "big")
