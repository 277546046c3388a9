"""Which captures of others are looked at again, by whom, and when does a peer stand out?"""

from dht import Contact
from dht.core.ids import PeerKey, key_of
from dht.core.records import Address
from herodotus.core.links.cross_fetches import (
    PEERS_MAX,
    WITNESSES_MAX,
    Crossed,
    CrossTally,
    CrossVerdict,
    is_drawn,
    own_share,
)

SALT = b"nobody's business"
KEYS = [key_of(b"%d" % number) for number in range(10_000)]


def contacts(count: int) -> list[Contact]:
    address = Address(host=bytes((10, 0, 0, 1)), port=4_484)
    return [Contact.at(PeerKey(bytes([number]) * 32), address, 0, 0, "off") for number in range(count)]


def test_of_many_urls_as_many_are_drawn_as_the_share_says() -> None:
    drawn = sum(is_drawn(SALT, key, 7, 0.02) for key in KEYS)
    assert 150 <= drawn <= 250


def test_no_share_draws_nothing_and_the_whole_draws_all() -> None:
    assert not any(is_drawn(SALT, key, 7, 0.0) for key in KEYS)
    assert all(is_drawn(SALT, key, 7, 1.0) for key in KEYS)


def test_what_is_drawn_stays_so_on_its_day_and_is_other_on_the_next_and_with_another_salt() -> None:
    drawn = {key for key in KEYS if is_drawn(SALT, key, 7, 0.1)}
    assert {key for key in KEYS if is_drawn(SALT, key, 7, 0.1)} == drawn
    assert {key for key in KEYS if is_drawn(SALT, key, 7, 0.2)} > drawn
    for other in ({key for key in KEYS if is_drawn(SALT, key, 8, 0.1)},
                  {key for key in KEYS if is_drawn(b"another", key, 7, 0.1)}):  # fmt: skip
        assert len(other & drawn) < len(drawn) / 4


def test_each_holder_besides_who_fetched_it_draws_its_part_and_nobody_else_does() -> None:
    holders = contacts(5)
    for fetched_by, part in ((0, 0.25), (3, 0.25), (9, 0.2)):
        by = bytes([fetched_by]) * 32
        assert [own_share(holders, by, one.peer, 1.0) for one in holders] == [
            0.0 if number == fetched_by else part for number in range(5)
        ]
    assert own_share(holders[:1], holders[0].peer, holders[0].peer, 1.0) == 0.0
    assert own_share(holders, bytes(32), b"no holder".ljust(32), 1.0) == 0.0


def test_a_peer_stands_out_by_six_differences_of_eight_and_not_by_fewer_looks_or_half() -> None:
    assert Crossed(agreed=2, differed=6).stands_out
    assert not Crossed(agreed=0, differed=7).stands_out
    assert not Crossed(agreed=3, differed=5).stands_out
    assert not Crossed(agreed=40, differed=50).stands_out
    assert not Crossed(agreed=1, differed=9, changing=90).stands_out


def test_a_difference_names_the_peer_once_it_stands_out_and_what_is_unclear_never_counts() -> None:
    tally, peer = CrossTally(), PeerKey(bytes(32))
    assert not any(tally.note(peer, CrossVerdict.UNCLEAR) for _ in range(100))
    assert [tally.note(peer, CrossVerdict.DIFFERS) for _ in range(8)] == [False] * 7 + [True]
    assert not tally.note(peer, CrossVerdict.AGREES)
    assert not tally.note(peer, CrossVerdict.CHANGES)
    assert tally.total == Crossed(agreed=1, differed=8, changing=1)
    assert tally.unclear == 100


def test_peers_beyond_the_bound_are_counted_together() -> None:
    tally = CrossTally()
    for number in range(PEERS_MAX + 5):
        tally.note(PeerKey(number.to_bytes(32, "big")), CrossVerdict.DIFFERS)
    assert (len(tally.of_peer), tally.total.differed) == (PEERS_MAX, PEERS_MAX + 5)


def test_honest_peers_do_not_stand_out_however_often_pages_change() -> None:
    """A page that changes between two looks with a chance p differs with p (1 - p), and changes with p squared."""
    for changes in range(1, 100):
        p = changes / 100
        looks = 100_000
        found = Crossed(
            agreed=round(looks * (1 - p)),
            differed=round(looks * p * (1 - p)),
            changing=round(looks * p * p),
        )
        assert not found.stands_out
        assert found.differed <= looks / 4


def test_keys_that_are_no_members_fill_no_table_and_name_nobody() -> None:
    tally = CrossTally()
    assert not any(tally.note(None, CrossVerdict.DIFFERS) for _ in range(20))
    assert (tally.total.differed, tally.of_peer) == (20, {})


def test_words_about_a_peer_count_where_it_stands_out_and_there_are_so_many() -> None:
    tally, peer = CrossTally(), PeerKey(bytes(32))
    tally.heard(peer, b"frames others")
    for _ in range(7):
        tally.note(peer, CrossVerdict.DIFFERS)
    tally.heard(peer, b"frames others")
    assert (tally.stands_out(peer), tally.witnesses(peer)) == (False, frozenset())
    tally.note(peer, CrossVerdict.DIFFERS)
    for number in range(2 * WITNESSES_MAX):
        tally.heard(peer, bytes([number % WITNESSES_MAX]) * 32)
    assert tally.stands_out(peer)
    assert len(tally.witnesses(peer)) == WITNESSES_MAX
