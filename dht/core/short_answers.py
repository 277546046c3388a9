"""Was this short call answered before? A repeated question gets the first answer again, and no second piece of work.

Remembered is an answer for as long as its asker may repeat the question, within bounds; what was forgotten is worked on
again, as calls must bear repetition. Pure: every method takes the time.
"""

from collections import Counter, OrderedDict
from typing import Final

from dht.core.ids import PeerKey
from dht.core.messages import UNDER_WAY, ShortAnswer

REMEMBERED_S: Final = 15.0
"""An asker repeats for 10 s (`dht.short_calls`), and its last copy may be late."""
REMEMBERED_MAX: Final = 4_096
"""At most 5 MB: an answer has 1,150 bytes."""
UNDER_WAY_MAX: Final = 512
"""In all: each is a task that may wait for another steward, some 10 kB."""
UNDER_WAY_OF_ONE_MAX: Final = 64
"""Of one peer, which could otherwise take all of that."""

_Question = tuple[PeerKey, int]


class ShortAnswers:
    def __init__(self) -> None:
        self._known: OrderedDict[_Question, tuple[ShortAnswer, float]] = OrderedDict()  # and until when
        self._under_way: set[_Question] = set()
        self._of_one: Counter[PeerKey] = Counter()

    def is_full(self, peer: PeerKey, number: int) -> bool:
        """Too much is under way, of this peer or in all, to begin with this question as well."""
        is_new = (peer, number) not in self._known and (peer, number) not in self._under_way
        return is_new and (
            len(self._under_way) >= UNDER_WAY_MAX or self._of_one[peer] >= UNDER_WAY_OF_ONE_MAX
        )

    def begin(self, peer: PeerKey, number: int, now: float) -> ShortAnswer | None:
        """What to answer at once. None: from now on it is under way, until `done`. Ask `is_full` before."""
        question = peer, number
        self._forget(now)
        if question in self._known:
            return self._known[question][0]
        if question in self._under_way:
            return ShortAnswer(id=number, outcome=UNDER_WAY, body=b"")
        assert not self.is_full(peer, number), "the caller has looked"
        self._under_way.add(question)
        self._of_one[peer] += 1
        return None

    def done(self, peer: PeerKey, answer: ShortAnswer | None, number: int, now: float) -> None:
        """None: nothing came of it, and a repeated question begins anew."""
        question = peer, number
        self._under_way.remove(question)
        self._of_one[peer] -= 1
        if not self._of_one[peer]:
            del self._of_one[peer]
        if answer is None:
            return
        self._known[question] = (answer, now + REMEMBERED_S)
        if len(self._known) > REMEMBERED_MAX:
            self._known.popitem(last=False)

    def _forget(self, now: float) -> None:
        while self._known and next(iter(self._known.values()))[1] <= now:
            self._known.popitem(last=False)

    def __len__(self) -> int:
        return len(self._known)
