"""Are captures that come in a list stored as if they had come one by one?"""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from herodotus.core.captures import CaptureId, Deposit
from herodotus.core.errors import ArchiveError, StoreRefusedError
from herodotus.core.index_rows import bucket_of
from herodotus.core.signatures import signed
from herodotus.store.intake import Copy, Prepared, StoreOutcome
from herodotus.store.store import DiskStore, Stored
from tests.contract.opened_stores import KINDS, opened_store
from tests.herodotus.store.making import NOW_S, page

pytestmark = pytest.mark.anyio
URL = "http://example.org/"
KEY = Ed25519PrivateKey.from_private_bytes(b"\3" * 32)
OTHER_KEY = Ed25519PrivateKey.from_private_bytes(b"\4" * 32)
NEW, REVISIT, KNOWN = StoreOutcome.NEW, StoreOutcome.REVISIT, StoreOutcome.KNOWN


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[DiskStore]:
    async with opened_store(request.param, tmp_path) as opened:
        opened.archive.sign = partial(signed, OTHER_KEY)
        yield opened


def a_page(number: int, body: bytes = b"") -> Deposit:
    return signed(KEY, page(f"{URL}{number}", NOW_S, body or b"<p>%d</p>" % number))


def outcomes(found: list[Stored | ArchiveError]) -> list[StoreOutcome]:
    assert all(isinstance(one, Stored) for one in found)
    return [one.outcome for one in found if isinstance(one, Stored)]


def of_one_bucket() -> list[Deposit]:
    """With one body."""
    some = [a_page(number, b"the same") for number in range(100)]
    return [one for one in some if bucket_of(one.key) == bucket_of(some[0].key)][:3]


async def test_a_list_is_stored_in_one_commit_and_read_back(store: DiskStore) -> None:
    deposits = [a_page(number) for number in range(20)]
    before = store.archive.counters.commits
    assert outcomes(await store.store_all([Copy(one) for one in deposits])) == [NEW] * 20
    assert store.archive.counters.commits == before + 1
    assert outcomes(await store.store_all([Copy(one) for one in deposits])) == [KNOWN] * 20
    for one in deposits:
        found = await store.read(one.id)
        assert found is not None
        assert (found.body, found.voucher) == (one.capture.body, KEY.public_key().public_bytes_raw().hex())
    assert await store.store_all([]) == []


async def test_what_stands_twice_in_a_list_is_stored_once(store: DiskStore) -> None:
    first, second, third = of_one_bucket()
    found = await store.store_all([Copy(one) for one in (first, first, second, third, second, a_page(1_000))])
    assert outcomes(found) == [NEW, KNOWN, REVISIT, REVISIT, KNOWN, NEW]
    assert store.archive.captures == 4
    for one in (first, second, third):
        read = await store.read(one.id)
        assert read is not None
        assert read.body == b"the same"


async def test_bodies_that_are_empty_do_not_make_a_list_many_commits(store: DiskStore) -> None:
    some = [a_page(number) for number in range(40)]
    empty = [signed(KEY, page(one.capture.url, NOW_S + 1, b"")) for one in some]
    before = store.archive.counters.commits
    assert outcomes(await store.store_all([Copy(one) for one in empty])) == [NEW] * 40
    assert store.archive.counters.commits == before + 1


async def test_what_was_deleted_stays_deleted_and_the_rest_of_the_list_comes_in(store: DiskStore) -> None:
    deposits = [a_page(number) for number in range(3)]
    await store.store(deposits[1])
    await store.delete([deposits[1].id])
    found = outcomes(await store.store_all([Copy(one) for one in deposits]))
    assert found == [NEW, StoreOutcome.DELETED, NEW]
    assert store.archive.captures == 2


async def test_a_refused_list_is_refused_as_a_whole_and_nothing_refers_to_it(store: DiskStore) -> None:
    first, second, _ = of_one_bucket()
    store.archive.refusal = "the disk failed"
    found = await store.store_all([Copy(first), Copy(a_page(500))])
    assert [type(one) for one in found] == [StoreRefusedError] * 2
    store.archive.refusal = None
    assert outcomes(await store.store_all([Copy(second)])) == [NEW]


async def test_what_rests_on_something_that_goes_meanwhile_is_prepared_again(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The original is deleted after the revisit was prepared, and before it is committed."""
    first, second, _ = of_one_bucket()
    await store.store(first)
    prepare = store.intake.prepare_copy
    seen: list[CaptureId] = []

    def prepared(copy: Copy) -> Prepared:
        found = prepare(copy)
        if not seen:
            store.intake.forget()
        seen.append(found.id)
        return found

    monkeypatch.setattr(store.intake, "prepare_copy", prepared)
    assert outcomes(await store.store_all([Copy(second)])) == [REVISIT]
    if store.workers.has_threads:  # in memory nothing comes between
        assert seen == [second.id] * 2


async def test_a_store_that_waits_for_other_holders_waits_for_each_new_one(store: DiskStore) -> None:
    waited: list[CaptureId] = []

    async def acknowledge(id_: CaptureId) -> None:
        waited.append(id_)

    deposits = [a_page(number) for number in range(3)]
    await store.store(deposits[0])
    store.acknowledge = acknowledge
    await store.store_all([Copy(one) for one in deposits])
    assert waited == [one.id for one in deposits[1:]]
