"""Which file is which, by its name alone?

    log/00000012.warc.gz                    the ingest log number 12
    segments/a/000002-00000013.warc.zst     sealed in epoch 2, file number 13, for the arc that starts with a
    segments/a/000002-00000013.cdxj         its captures, for other tools
    segments/a/000002-00000013.zdict        its dictionary once more, if it has one
    journal/000002.txt                      an epoch that is being put in place

Numbers are never used twice in an archive, so the directory listing is the catalogue: nothing else says where
a file is.
"""

import re
from dataclasses import dataclass
from enum import Enum
from math import gcd

LOG_FOLDER, SEGMENT_FOLDER, JOURNAL_FOLDER = "log", "segments", "journal"
DICTIONARY_FIELD = "herodotus-dictionary-digest"
"""In the warcinfo record of a segment with a dictionary."""
CDXJ_BYTES_MAX = 1024 * 1024 * 1024
SEGMENT_BYTES_MAX = 256 * 1024 * 1024
NUMBER_MAX = 2**31
"""The limit of a file's number: the index has four bytes for it, and no archive reaches it. A larger number is not
ours."""
_LOG = re.compile(r"log/(\d{8,10})\.warc\.gz")
_SEGMENT = re.compile(r"segments/([0-9a-f])/(\d{6,10})-(\d{8,10})\.warc\.(gz|zst)")


class Compression(Enum):
    GZIP = "gz"
    ZSTD = "zst"

    @property
    def magic(self) -> bytes:
        """How every member starts."""
        match self:
            case Compression.GZIP:
                return b"\x1f\x8b\x08"
            case Compression.ZSTD:
                return b"\x28\xb5\x2f\xfd"

    @property
    def shares_members(self) -> bool:
        """Whether versions of one URL lie together in a member of a segment; else each record has one of its own."""
        match self:
            case Compression.GZIP:
                return False
            case Compression.ZSTD:
                return True

    @property
    def takes_dictionary(self) -> bool:
        match self:
            case Compression.GZIP:
                return False
            case Compression.ZSTD:
                return True


@dataclass(frozen=True, slots=True, kw_only=True)
class FileName:
    number: int
    bucket: int | None = None
    """None for a log, which takes captures of every arc."""
    epoch: int = 0
    codec: Compression = Compression.GZIP

    @property
    def path(self) -> str:
        assert 0 <= self.number <= NUMBER_MAX, "the index could not name it"
        if self.bucket is None:
            return f"{LOG_FOLDER}/{self.number:08}.warc.gz"
        return f"{SEGMENT_FOLDER}/{self.bucket:x}/{self.epoch:06}-{self.number:08}.warc.{self.codec.value}"

    @property
    def cdxj(self) -> str:
        return self.path.rpartition(".warc.")[0] + ".cdxj"

    @property
    def zdict(self) -> str:
        return self.path.rpartition(".warc.")[0] + ".zdict"

    @property
    def is_log(self) -> bool:
        return self.bucket is None


def parse_path(path: str) -> FileName | None:
    """None for a file that is not ours."""
    log = _LOG.fullmatch(path)
    if log is not None:
        return FileName(number=int(log[1])) if int(log[1]) <= NUMBER_MAX else None
    segment = _SEGMENT.fullmatch(path)
    if segment is None or int(segment[3]) > NUMBER_MAX:
        return None
    return FileName(
        number=int(segment[3]),
        bucket=int(segment[1], 16),
        epoch=int(segment[2]),
        codec=Compression(segment[4]),
    )


def slice_of(bucket: int, epoch: int, slices: int) -> int:
    """Which of several disks a segment belongs on: Generalised Disk Modulo with a step near 0.38 n (paper
    002)."""
    assert slices >= 1
    return (bucket + golden_step(slices) * epoch) % slices


def golden_step(slices: int) -> int:
    """The number nearest to 0.38 n that has no divisor in common with n."""
    candidates = [step for step in range(1, max(slices, 2)) if gcd(step, slices) == 1]
    assert candidates, "one has no divisor in common with any number"
    return min(candidates, key=lambda step: (abs(step - 0.38 * slices), step))


README = """\
This folder is a web archive. It needs no particular program:

  log/*.warc.gz            captures in the order in which they came
  segments/*/*.warc.zst    the same, sorted: `zstd -dc FILE` gives plain WARC
  segments/*/*.warc.gz     the same for `zcat FILE`
  segments/*/*.zdict       if there is one: `zstd -dc -D FILE.zdict FILE.warc.zst` for the file beside it
  segments/*/*.cdxj        an index of the file beside it: URL, date, where the record lies

Each file is a WARC 1.1 file (ISO 28500:2017): records of type response, request, revisit and metadata. Tools
that read it: warcio, FastWARC, pywb, ReplayWeb.page. To keep the archive, copy this folder; everything
outside it can be made again from it. A `revisit` record has no body: it names the capture that has the same
one, by URL and date. `metadata` records of type application/vnd.herodotus.visits list dates on which a URL
had not changed since the capture before; those of type application/vnd.herodotus.tombstones list captures
that were deleted.
"""
