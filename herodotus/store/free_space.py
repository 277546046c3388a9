"""Is there room for what sealing writes, and on which disk?

Sealing writes every new file before it removes an old one. A disk that is filled to its last byte hurts everything
that writes there, the index among them, so too little room is a refusal before the first byte; the reserve may be
used.
"""

from collections.abc import Callable, Mapping

from herodotus.core.errors import StoreRefusedError
from herodotus.core.index_rows import BUCKETS
from herodotus.core.layout import slice_of
from herodotus.store.engine import Archive


def find_room(
    archive: Archive, epoch: int, live: Mapping[int, int], counted: Callable[[], Mapping[int, int]]
) -> dict[int, int]:
    """The slice of each bucket: where the formula says, or where there is more room. `live` are the files that go in
    and the most of their bytes that may be written again; `counted` says for each bucket how many they really are,
    which takes a walk over the index."""
    # The guess costs nearly nothing. Only when it does not fit is it worth a walk over the index, which may find room
    # where the guess saw none.
    slices = _placed(archive, epoch, _expected(archive, live))
    if slices is None:
        exact = counted()
        slices = _placed(archive, epoch, exact)
        if slices is None:
            size = grown(sum(exact.values()))
            raise StoreRefusedError(f"no segment can be written: the disk has no room for {size} bytes")
    assert len(slices) == BUCKETS, "any bucket may get a segment"
    return slices


def grown(size: int) -> int:
    """A segment's size with its list, and a margin for members that pack worse than before."""
    return size + size // 8


def _expected(archive: Archive, live: Mapping[int, int]) -> dict[int, int]:
    """A log has some of all buckets."""
    expected = dict.fromkeys(range(BUCKETS), 0)
    for number, size in live.items():
        bucket = archive.files.catalogue[number].name.bucket
        for one in range(BUCKETS) if bucket is None else (bucket,):
            expected[one] += size // BUCKETS if bucket is None else size
    return expected


def _placed(archive: Archive, epoch: int, sizes: Mapping[int, int]) -> dict[int, int] | None:
    """None when they do not all fit. The largest choose first."""
    # The largest first: a small one still fits into what is left, a large one would not. Where the formula's disk is
    # full another will do, since the listing says where a file is; the formula only spreads them.
    present = archive.files.present
    room = {slice_: archive.free_on(slice_) for slice_ in present}
    slices = {}
    for bucket, size in sorted(sizes.items(), key=lambda pair: (-pair[1], pair[0])):
        chosen = present[slice_of(bucket, epoch, len(present))]
        if room[chosen] < grown(size):
            chosen = max(present, key=lambda slice_: (room[slice_], -slice_))
        if room[chosen] < grown(size):
            return None
        room[chosen] -= grown(size)
        assert room[chosen] >= 0
        slices[bucket] = chosen
    return slices
