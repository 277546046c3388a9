"""How a status reads, and that nothing a lying peer says breaks it."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from herodotus.operate.cli.status_text import sentence_lines, status_lines

FACTS: dict[str, Any] = {
    "peer_id": "tpfk-jclj",
    "http": "http://127.0.0.1:5484",
    "pid": 7,
    "uptime_s": 100,
    "ring": {
        "members": 3,
        "ideal": True,
        "address": "192.0.2.7:4484",
        "reachability": "no router was asked",
        "arcs": [["00" * 20, "40" + "00" * 19], ["ab" * 20, "ab" * 20]],
        "nodes": [
            {
                "position": "40" + "00" * 19,
                "is_member": True,
                "predecessor": {"position": "10" * 20, "address": "192.0.2.8:4484", "clock": "well"},
                "successors": [
                    {"position": "80" * 20, "address": "192.0.2.9:4484", "clock": "unreachable"},
                    {"position": "10" * 20, "address": "192.0.2.8:4484", "clock": "well"},
                ],
            }
        ],
        "unwell": {"0123456789abcdef": "unreachable"},
        "traffic": {
            "bytes_in": 5_000,
            "bytes_out": 4_000,
            "sessions": 2,
            "kinds": {"Ping": [45, 90], "Digest": [2_144, 1_072], "Pong": "none"},
            "dropped": {"flood": 3},
        },
    },
    "crawl": {"known": 9, "due": 1},
    "store": {},
}


def test_a_status_is_small_aligned_tables() -> None:
    assert status_lines(FACTS) == [
        "peer_id      tpfk-jclj",
        "nickname",
        "version",
        "network",
        "network_id",
        "http         http://127.0.0.1:5484",
        "pid          7",
        "started",
        "uptime_s     100",
        "ring         3 members, ideal",
        "  reached at 192.0.2.7:4484",
        "  outside    no router was asked",
        "  traffic    in 50 B/s, out 40 B/s, 2 sessions",
        "  in and out Digest 2,144 B and 1,072 B, Ping 45 B and 90 B",
        "  dropped    flood 3",
        "",
        "  holds keys after  up to             of the circle",
        "  0000000000000000  4000000000000000   25.00%",
        "  abababababababab  abababababababab  100.00%",
        "",
        "position 4000000000000000  member",
        "  predecessor              1010101010101010  192.0.2.8:4484  well",
        "  successor 1              8080808080808080  192.0.2.9:4484  unreachable",
        "  successor 2              1010101010101010  192.0.2.8:4484  well",
        "",
        "unwell peer       clock",
        "0123456789abcdef  unreachable",
        "",
        "crawl        known 9  due 1",
        "store        -",
    ]


def test_alarms_stand_near_the_top_and_steer_nothing() -> None:
    lines = status_lines({"alarms": ["the disk is full", "\x1b[2J", {"no": "word"}], "uptime_s": 3})
    assert lines[9:11] == ["alarm        the disk is full", "alarm        \\u001b[2J"]
    assert status_lines({"alarms": "all"}) == status_lines({})


SAID = {
    "standing": "Alone: no peer answered.",
    "doing": "Crawling: 2 pages.",
    "holds": "It holds nothing yet.",
    "next": "",
}


def test_sentences_come_first_and_what_is_wrong_is_marked() -> None:
    facts = {
        "said": SAID,
        "alarms": ["the disk is full"],
        "peer_id": "tpfk-jclj-abcdefgh",
        "network": "n",
        "http": "h",
    }
    assert sentence_lines(facts) == [
        "Alone: no peer answered.",
        "! the disk is full",
        "Crawling: 2 pages.",
        "It holds nothing yet.",
        "",
        "tpfk-jclj-abcd of n, h/  (more: `herodotus status --verbose`)",
    ]
    narrow = sentence_lines({**facts, "alarms": ["word " * 20]}, width=40)
    assert all(len(line) <= 40 for line in narrow[:-1])
    assert sum(line.startswith("  word") for line in narrow) == 2, "an alarm stays together"


def test_who_does_not_say_it_in_sentences_is_shown_in_tables() -> None:
    odd: tuple[object, ...] = (None, {}, [], "x", {"standing": 3, "doing": None}, {"standing": ""})
    for said in odd:
        assert sentence_lines({"said": said}) == []
    long = sentence_lines({"said": {"standing": "\x1b[2J" + "a" * 9_999}})
    assert (long[0].isprintable(), len(long[0]) <= 600) == (True, True)


def test_watched_rates_are_those_since_the_last_look() -> None:
    traffic = {"bytes_in": 5_600, "bytes_out": 44_000, "sessions": 2}
    later = {**FACTS, "uptime_s": 102, "ring": {**FACTS["ring"], "traffic": traffic}}
    assert "  traffic    in 300 B/s, out 20.0 kB/s, 2 sessions" in status_lines(later, FACTS)
    restarted = {**later, "pid": 8, "uptime_s": 2}
    assert "  traffic    in 2,800 B/s, out 22.0 kB/s, 2 sessions" in status_lines(restarted, FACTS)


def test_a_lying_peer_s_words_do_not_steer_the_terminal() -> None:
    liar = {
        "peer_id": "\x1b[2J",
        "ring": {"address": "a\rb", "unwell": {"\x07": "\x1b"}},
        "crawl": {"\x9b": 1},
    }
    assert all(line.isprintable() for line in status_lines(liar))


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3),
    max_leaves=10,
)
names = st.sampled_from(["members", "arcs", "nodes", "unwell", "traffic", "address", "ideal"])


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no fault
@given(st.dictionaries(names, anything), anything, anything)
def test_whatever_was_said_is_shown_somehow(ring: object, traffic: object, nodes: object) -> None:
    for part in (
        ring,
        {"traffic": traffic, "nodes": [nodes]},
        {"arcs": [nodes], "nodes": [{"successors": nodes}]},
    ):
        facts = {"ring": part, "uptime_s": traffic, "copies": nodes}
        assert all(line.isprintable() for line in status_lines(facts, facts))


def test_places_are_told_where_copies_count_by_them() -> None:
    places = {"by": "prefix", "places": 9, "areas": 4, "of_age": 12, "probation_days": 7, "veteran_days": 60}
    ring = {"members": 14, "ideal": True, "address": "192.0.2.7:4484", "places": places}
    (line,) = [one for one in status_lines({"ring": ring}) if one.startswith("  places")]
    assert (
        line
        == "  places     9 with 12 members that count; a new one counts after 7 days, is a veteran after 60"
    )
    young = {**ring, "places": {**places, "is_counted": False}}
    assert (
        "             this peer does not count yet: it stores what it will hold, and others do not rely on it"
        in (status_lines({"ring": young}))
    )
    copying = {"places": {"told": "copies in 6 places"}}
    assert status_lines({"copying": copying})[-1] == "  places     copies in 6 places"
    by_peer = {**ring, "places": {**places, "by": "peer"}}
    assert not any(one.startswith("  places") for one in status_lines({"ring": by_peer}))


def test_a_slot_is_shown_where_it_is_not_the_first() -> None:
    ring = {"members": 3, "ideal": True, "address": "192.0.2.7:4484", "reachability": "", "slot": 2}
    assert "  reached at 192.0.2.7:4484, slot 2" in status_lines({"ring": ring})
    assert "  reached at 192.0.2.7:4484" in status_lines({"ring": {**ring, "slot": 0}})
    assert "  reached at 192.0.2.7:4484" in status_lines({"ring": {**ring, "slot": "\x1b"}})
