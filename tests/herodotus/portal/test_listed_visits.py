"""Are visits that found nothing new in every list, and mementos of their own?"""

import json

import anyio
import pytest

from herodotus.core.captures import position_of
from herodotus.core.index_rows import SEEN_MAX, decode_seen, encode_seen
from herodotus.core.warc import format_digits
from herodotus.store.index import IndexBatch
from tests.herodotus.portal.library import HOME, ORIGIN, SITE, Library, at, response

OLD, NEW = "20260101060000", "20260105060000"
VISITS = ("20260102060000", "20260103060000", "20260106060000", "20260820060000")
ALL = (OLD, *VISITS[:2], NEW, *VISITS[2:])


@pytest.fixture(scope="module")
def library() -> Library:
    library = Library(response(HOME, OLD, b"old"), response(f"{SITE}/other", OLD, b"o", "text/css"))
    visits = [(HOME, date) for date in (*VISITS[1::-1], VISITS[1])]  # neither sorted nor once
    library.add(visits=(*visits, (f"{SITE}/other", VISITS[0])))
    library.add(response(HOME, NEW, b"new"))
    library.add(visits=tuple((HOME, date) for date in VISITS[2:]))
    return library


def lines(library: Library, question: str) -> list[str]:
    return library.get(f"/cdx/search/cdx?{question}").body.decode().splitlines()


def dates(library: Library, question: str) -> list[str]:
    return [line.split(" ")[1] for line in lines(library, question)]


@pytest.mark.parametrize("many", ["", "&matchType=prefix&filter=original:.*/"])
@pytest.mark.parametrize(
    ("question", "shown"),
    [
        ("", ALL),
        ("from=20260103", ALL[2:]),
        ("from=20260103070000&to=20260105", (NEW,)),
        ("from=20260701&to=20261231", ALL[-1:]),
        ("to=20260102", ALL[:2]),
        ("limit=3", ALL[:3]),
        ("limit=-2", ALL[-2:]),
        ("collapse=digest", (OLD, NEW)),
        ("filter=!mimetype:warc/revisit", (OLD, NEW)),
        ("filter=mimetype:warc/revisit&filter=statuscode:200", VISITS),
    ],
)
def test_cdx_lists_each_visit_in_its_place(
    library: Library, question: str, shown: tuple[str, ...], many: str
) -> None:
    assert dates(library, f"url={HOME}{many}&{question}") == list(shown)


def test_a_visit_has_the_facts_of_what_it_found(library: Library) -> None:
    first, visit = (line.split(" ") for line in lines(library, f"url={HOME}&limit=2"))
    assert visit == [first[0], VISITS[0], first[2], "warc/revisit", "200", *first[5:]]
    counts = lines(library, f"url={HOME}&fl=timestamp,dupecount")
    assert counts == [f"{date} {count}" for date, count in zip(ALL, [0, 1, 2, 0, 1, 2], strict=True)]


@pytest.mark.parametrize("many", ["", "&matchType=prefix"])
def test_a_list_goes_on_between_visits(library: Library, many: str) -> None:
    found: list[str] = []
    key = ""
    while True:
        part = lines(
            library, f"url={HOME}{many}&limit=2&showResumeKey=true&fl=original,timestamp&resumeKey={key}"
        )
        rows, resumed = (part[:-2], part[-1]) if "" in part else (part, "")
        found += rows
        if not resumed:
            break
        key = resumed
    assert len(found) == len(set(found)) == len(ALL) + (2 if many else 0)


@pytest.mark.parametrize("form", ["link", "json", "cdxj"])
def test_timemaps_list_each_visit(library: Library, form: str) -> None:
    body = library.get(f"/web/timemap/{form}/{HOME}").body.decode()
    places = [body.rindex(f"{ORIGIN}/web/{date}/{HOME}") for date in ALL]
    assert places == sorted(places)
    if form == "json":
        assert [
            one["uri"].partition("/web/")[2][:14] for one in json.loads(body)["mementos"]["list"]
        ] == list(ALL)


@pytest.mark.parametrize("number", range(6))
def test_a_visit_is_a_memento_between_its_neighbours(library: Library, number: int) -> None:
    for flag in ("", "id_"):
        answer = library.get(f"/web/{ALL[number]}{flag}/{HOME}")
        assert answer.status == 200
        assert (b"old" if number < 3 else b"new") in answer.body
        links = {
            word: link.split(">")[0].partition("/web/")[2][:14]
            for link in answer.headers["Link"].split(", <")
            for word in link.partition('rel="')[2].partition('"')[0].split()
        }
        assert (links["first"], links["last"]) == (ALL[0], ALL[-1])
        assert links.get("prev") == (ALL[number - 1] if number else None)
        assert links.get("next") == (ALL[number + 1] if number < 5 else None)


def test_a_second_at_which_nobody_looked_leads_to_the_capture(library: Library) -> None:
    assert library.location(f"/web/20260103060001/{HOME}") == f"/web/{OLD}/{HOME}"
    assert library.location(f"/web/{VISITS[2]}/{SITE}/other") == f"/web/{OLD}/{SITE}/other"


def test_visits_of_several_commits_are_all_known() -> None:
    library = Library(response(HOME, OLD, b"old"))
    days = ("20260102060000", "20260103060000", "20260104060000")
    for date in days:
        library.add(visits=((HOME, date),))
    assert dates(library, f"url={HOME}") == [OLD, *days]


def test_what_an_older_release_counted_is_listed_by_its_last_visit() -> None:
    library = Library(response(HOME, OLD, b"old"), visits=tuple((HOME, date) for date in VISITS))
    index = library.store.archive.index
    index.write(IndexBatch([(key, None) for key, _ in index.scan(b"w", b"x")]))
    assert dates(library, f"url={HOME}") == [OLD, VISITS[-1]]


def test_visits_of_a_deleted_capture_are_gone_with_it() -> None:
    library = Library(response(HOME, OLD, b"old"), visits=tuple((HOME, date) for date in VISITS))
    assert len(list(library.store.archive.index.scan(b"w", b"x"))) == 2
    [capture] = library.catalogue.history(HOME, 0, at(NEW))
    anyio.run(library.store.delete, [capture.id])
    assert list(library.store.archive.index.scan(b"w", b"x")) == []


def test_times_of_a_span_are_kept_in_a_few_bytes_and_no_more_than_so_many() -> None:
    key = b"w" + position_of(HOME)[:12] + bytes(7) + (at(OLD) // (32 * 86_400)).to_bytes(2, "big")
    begin_s = at(OLD) // (32 * 86_400) * 32 * 86_400
    days = [begin_s + day * 86_400 for day in range(32)]
    data = encode_seen(key, [*reversed(days), days[3]])
    assert decode_seen(key, data) == days
    assert len(data) == 1 + 31 * 3
    assert decode_seen(key, encode_seen(key, range(begin_s, begin_s + 1_000))) == list(
        range(begin_s, begin_s + SEEN_MAX)
    )
    assert format_digits(decode_seen(key, encode_seen(key, [at(OLD)]))[0]) == OLD
