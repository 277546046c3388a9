"""Is what a visit found unchanged shown, in each of the ways in which writers say so, and under each spelling?"""

from io import BytesIO

import pytest

from herodotus.core.warc import TIME_MAX_S, format_record, parse_date
from herodotus.store.warc_import import import_file
from tests.herodotus.store.making import NOW_S, sha1_text
from tests.herodotus.store.memory_store import MemoryStore

pytestmark = pytest.mark.anyio
HELD, DATE, BODY = "http://www.iana.example/", "2020-01-01T00:00:00Z", b"<p>the page"
RECORD = "<urn:uuid:12345678-1234-4234-8234-123456789abc>"
IDENTICAL = "http://netpreserve.org/warc/1.0/revisit/identical-payload-digest"
NOT_MODIFIED = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
WHOLE, UNCHANGED = b"HTTP/1.1 200 OK\r\nX-Seen: again\r\n\r\n", b"HTTP/1.1 304 Not Modified\r\n\r\n"
BY_RECORD = (("WARC-Refers-To", RECORD),)
BY_DATE = (("WARC-Refers-To-Target-URI", HELD), ("WARC-Refers-To-Date", DATE))
BY_DIGEST = (("WARC-Payload-Digest", sha1_text(BODY)),)
WAYS = [
    ("identical, by record", IDENTICAL, BY_RECORD, WHOLE),
    ("identical, by address and date", IDENTICAL, BY_DATE, WHOLE),
    ("identical, by digest alone", IDENTICAL, BY_DIGEST, WHOLE),
    ("identical, by all three", IDENTICAL, BY_RECORD + BY_DATE + BY_DIGEST, WHOLE),
    ("identical, without a head", IDENTICAL, BY_DATE + BY_DIGEST, b""),
    ("identical, by nothing", IDENTICAL, (), WHOLE),
    ("identical, by the date alone", IDENTICAL, (("WARC-Refers-To-Date", DATE),), WHOLE),
    ("not modified, by record", NOT_MODIFIED, BY_RECORD, UNCHANGED),
    ("not modified, by address and date", NOT_MODIFIED, BY_DATE, UNCHANGED),
    ("not modified, by digest alone", NOT_MODIFIED, BY_DIGEST, UNCHANGED),
    ("not modified, the digest of nothing", NOT_MODIFIED, (("WARC-Payload-Digest", sha1_text(b"")),), UNCHANGED),
    ("not modified, without a head", NOT_MODIFIED, BY_DATE, b""),
    ("not modified, by nothing", NOT_MODIFIED, (), UNCHANGED),
    ("not modified, with a whole head", NOT_MODIFIED, BY_DATE + BY_DIGEST, WHOLE),
]  # fmt: skip


def record(kind: str, record_id: str, url: str, date: str, block: bytes, *more: tuple[str, str]) -> bytes:
    fields = (
        ("WARC-Type", kind),
        ("WARC-Record-ID", record_id),
        ("WARC-Target-URI", url),
        ("WARC-Date", date),
        *more,
        ("Content-Type", "application/http;msgtype=response"),
    )
    return format_record(fields, block)


@pytest.mark.parametrize("url", [HELD, "https://www.iana.example/", "http://iana.example"])
@pytest.mark.parametrize(("way", "profile", "references", "head"), WAYS, ids=[way[0] for way in WAYS])
async def test_a_visit_without_news_shows_what_it_refers_to(
    url: str, way: str, profile: str, references: tuple[tuple[str, str], ...], head: bytes
) -> None:
    store = MemoryStore(lambda: float(NOW_S))
    first = record("response", RECORD, HELD, DATE, b"HTTP/1.1 200 OK\r\nX-Page: yes\r\n\r\n" + BODY)
    again = record("revisit", RECORD.replace("1", "2"), url, "2020-01-02T00:00:00Z", head,
                   ("WARC-Profile", profile), *references)  # fmt: skip
    report = await import_file(store, BytesIO(first + again))
    assert (report.problems, report.orphans) == ([], 0), way
    found = await store.newest(url, TIME_MAX_S)
    assert found is not None
    assert found.body == BODY
    versions = await store.history(url)
    assert max(one.last_seen_s for one in versions) == parse_date("2020-01-02T00:00:00Z")
