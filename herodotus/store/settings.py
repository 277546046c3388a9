"""How is one archive kept: sizes, limits, codec, and the writer's name in its files?"""

from dataclasses import dataclass

from herodotus import __version__
from herodotus.core.charter import Charter
from herodotus.core.layout import SEGMENT_BYTES_MAX, Compression
from herodotus.core.removals import DAY_S
from herodotus.core.settings.sections import Settings
from herodotus.core.warc import Fields
from herodotus.home.identity import PeerId, shown_peer_id


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSettings:
    log_bytes_max: int = SEGMENT_BYTES_MAX
    segment_bytes_max: int = SEGMENT_BYTES_MAX
    index_flush_bytes: int = 32 * 1024 * 1024
    """How much of the log is read again after a crash: less than a second's worth."""
    reserve_bytes: int = 256 * 1024 * 1024
    """Left free on the disk, so that sealing and the index can still work when storing has stopped."""
    archive_bytes_max: int | None = None
    """The limit for all files together; sealing needs up to a segment more for a while."""
    upkeep_bytes_per_s: int = 64 * 1024 * 1024
    """The pace of sealing and compaction: a fraction of the slowest usual disk's."""
    scrub_days: int = 30
    """All files are read once in so long; 0: never."""
    codec: Compression = Compression.ZSTD
    dictionary_bytes: int = 0
    """Of the dictionary that each zstd segment is compressed with, if any: it saves a third where a bucket has many
    pages of few sites, and then `zstd -dc` alone no longer reads the file."""
    grace_s: float = 30 * 86_400.0
    """How long the bytes of hidden captures stay."""
    software: Fields = (("software", "Herodotus"),)
    """The fields of warcinfo: the program and the peer."""


def archive_settings(
    settings: Settings, charter: Charter | None = None, peer: PeerId | None = None
) -> ArchiveSettings:
    """Each file names its program, peer and network, for a reader who finds only this file."""
    disk, files = settings.budget.disk, settings.archive
    said = [("software", f"Herodotus/{__version__}")]
    if peer is not None:
        said.append(("herodotus-peer", shown_peer_id(peer)))
    if settings.operator.contact:
        said.append(("operator", settings.operator.contact))
    if charter is not None:
        said.append(("isPartOf", charter.name))
    return ArchiveSettings(
        reserve_bytes=disk.free_bytes_min,
        archive_bytes_max=disk.archive_bytes_max,
        scrub_days=files.scrub_days,
        codec=Compression[files.codec.upper()],
        dictionary_bytes=files.dictionary_kb * 1_000,
        grace_s=settings.removals.grace_days * DAY_S,
        software=tuple((name, " ".join(value.split())) for name, value in said),
    )
