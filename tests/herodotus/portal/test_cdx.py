"""Are the CDX server's questions answered as its clients expect, and bounded?"""

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from herodotus.core.captures import CaptureId
from herodotus.core.doors import Door, Passage, through
from herodotus.portal.cdx import CostlyFiltersError, parse_question, row_of, thinned_places
from herodotus.store.reader import Version
from tests.herodotus.portal.library import HOME, SITE, Library, response

FIRST = "org,example)/ 20260101000000 https://example.org/ text/html 200"


@pytest.fixture(scope="module")
def library() -> Library:
    return Library(
        response(HOME, "20260101", b"a"),
        response(HOME, "20260102", b"b"),
        response("http://www.example.org/", "20260103", b"a"),
        response(HOME, "20260104", b"a"),
        response(f"{SITE}/a.pdf", "20260102", b"pdf", "application/pdf"),
        response(f"{SITE}/gone", "20260102", b"gone", "text/html", 404),
        response("https://news.example.org/x", "20260102", b"news"),
        response("https://example.org:8443/port", "20260102", b"port"),
        response("https://examples.org/", "20260102", b"another"),
        response("https://192.0.2.7/", "20260102", b"number"),
    )


def lines(library: Library, question: str) -> list[str]:
    answer = library.get(f"/cdx/search/cdx?{question}")
    assert (answer.status, answer.content_type) == (200, "text/plain; charset=utf-8"), answer.body
    return answer.body.decode().splitlines()


def days(library: Library, question: str) -> list[str]:
    return [line.split(" ")[1][6:8] for line in lines(library, question)]


def originals(library: Library, question: str) -> list[str]:
    return [line.split(" ")[2] for line in lines(library, question)]


def test_a_line_has_the_seven_fields(library: Library) -> None:
    first = lines(library, f"url={HOME}")[0].split(" ")
    assert " ".join(first[:5]) == FIRST
    assert first[5] == "Q336IN72UWT7ZYK5DXOLT2XK5I3XMZ5Y"  # SHA-1 of "a"
    assert int(first[6]) > 100


def test_the_key_does_not_tell_http_https_and_www_apart(library: Library) -> None:
    for url in (HOME, "example.org", "http://www.example.org", "HTTP://EXAMPLE.ORG:80/"):
        assert days(library, f"url={url}") == ["01", "02", "03", "04"]


def test_spans_limits_and_orders(library: Library) -> None:
    assert days(library, f"url={HOME}&from=20260102&to=20260103") == ["02", "03"]
    assert days(library, f"url={HOME}&to=20260102000000") == ["01", "02"]
    assert days(library, f"url={HOME}&limit=2") == ["01", "02"]
    assert days(library, f"url={HOME}&limit=-2") == ["03", "04"]
    assert days(library, f"url={HOME}&limit=2&offset=1") == ["02", "03"]
    assert days(library, f"url={HOME}&sort=reverse") == ["04", "03", "02", "01"]
    assert days(library, f"url={HOME}&sort=closest&closest=20260103") == ["03", "02", "04", "01"]


def test_hosts_folders_and_domains(library: Library) -> None:
    assert originals(library, f"url={SITE}/a*") == [f"{SITE}/a.pdf"]
    assert originals(library, f"url={SITE}/a&matchType=prefix") == [f"{SITE}/a.pdf"]
    host = originals(library, f"url={SITE}&matchType=host&collapse=original")
    assert host == [
        HOME, f"{SITE}/a.pdf", f"{SITE}/gone", "http://www.example.org/", "https://example.org:8443/port",
    ]  # fmt: skip
    domain = originals(library, "url=*.example.org&collapse=original")
    assert set(domain) - set(host) == {"https://news.example.org/x"}
    assert originals(library, "url=192.0.2.7&matchType=host") == ["https://192.0.2.7/"]


def test_filters_look_at_whole_fields(library: Library) -> None:
    every = f"url={SITE}/&matchType=prefix"
    assert originals(library, f"{every}&filter=statuscode:404") == [f"{SITE}/gone"]
    assert originals(library, f"{every}&filter=mimetype:application/.*") == [f"{SITE}/a.pdf"]
    assert originals(library, f"{every}&filter=!statuscode:200") == [f"{SITE}/gone"]
    assert originals(library, f"{every}&filter=!mimetype:text/html&filter=statuscode:200") == [
        f"{SITE}/a.pdf"
    ]
    assert originals(library, f"{every}&filter==status:404") == [f"{SITE}/gone"]
    assert originals(library, f"{every}&filter=statuscode:20") == []


def test_choices_that_only_add_up_are_free(library: Library) -> None:
    codes = "%7C".join(str(code) for code in range(404, 430))
    assert originals(library, f"url={SITE}/*&filter=statuscode:{codes}") == [f"{SITE}/gone"]
    assert originals(library, f"url={SITE}/*&filter=original:.*%5C.(pdf%7Cdjvu%7Cps%7Codt)") == [
        f"{SITE}/a.pdf"
    ]


def test_filters_that_take_too_long_are_given_up_between_rows() -> None:
    clock = itertools.count(0.0, 0.4)  # each row takes so long
    question = parse_question([("url", f"{SITE}/*"), ("filter", "statuscode:200")])
    taken: list[int] = []

    def rows() -> Iterator[tuple[int, dict[str, str]]]:
        for number in range(100):
            taken.append(number)
            yield number, {"statuscode": "200"}

    with pytest.raises(CostlyFiltersError):
        list(thinned_places(rows(), question, now=lambda: next(clock)))
    assert len(taken) == 6


def test_collapsing_keeps_the_first_of_neighbours(library: Library) -> None:
    assert days(library, f"url={HOME}&collapse=digest") == ["01", "02", "03"]
    assert days(library, f"url={HOME}&collapse=timestamp:6") == ["01"]
    assert days(library, f"url={HOME}&collapse=urlkey") == ["01"]


def test_fields_counts_and_json(library: Library) -> None:
    assert lines(library, f"url={HOME}&fl=timestamp,statuscode&limit=1") == ["20260101000000 200"]
    counted = lines(library, f"url={HOME}&fl=timestamp&showDupeCount=true")
    assert [line.split(" ")[1] for line in counted] == ["0", "0", "1", "2"]
    table = json.loads(library.get(f"/cdx/search/cdx?url={HOME}&output=json&fl=timestamp,original").body)
    assert table[:2] == [["timestamp", "original"], ["20260101000000", HOME]]
    assert json.loads(library.get("/cdx/search/cdx?url=nobody.example&output=json").body) == []


def test_a_row_says_by_which_door_it_came_if_it_is_asked_to() -> None:
    library = Library(
        through(Passage(Door.BROUGHT_IN), response(HOME, "20260101", b"1")),
        through(Passage(Door.LATE, is_healed=True), response(HOME, "20260102", b"2")),
        response(HOME, "20260103", b"3"),
    )
    told = [line.split()[1] for line in lines(library, f"url={HOME}&fl=timestamp,door")]
    assert told == ["brought-in", "late,healed", "-"]
    assert lines(library, f"url={HOME}&fl=door&filter=door:late.*") == ["late,healed"]
    assert all(len(line.split()) == 7 for line in lines(library, f"url={HOME}"))  # other tools know no more
    head, *_ = json.loads(library.get(f"/cdx?url={HOME}&output=json").body)
    assert "door" not in head


def test_each_capture_is_a_file_that_can_be_loaded(library: Library) -> None:
    """Its name goes below the REST interface, where readers that load records by offset find it."""
    [line] = lines(library, f"url={HOME}&fl=offset,filename,redirect&limit=1")
    assert line == "0 records/warc?date=20260101000000&url=https%3A%2F%2Fexample.org%2F -"


@pytest.mark.parametrize("where", [f"url={HOME}", f"url={SITE}&matchType=domain"])
def test_a_long_answer_is_taken_piece_by_piece(library: Library, where: str) -> None:
    whole = lines(library, where)
    taken: list[str] = []
    key = ""
    for _ in range(20):
        answer = lines(library, f"{where}&limit=2&showResumeKey=true{key}")
        if "" not in answer:
            taken += answer
            break
        at = answer.index("")
        taken += answer[:at]
        key = f"&resumeKey={answer[at + 1]}"
    assert taken == whole
    assert len(whole) >= 4


def test_pages_of_many_addresses_are_numbered(library: Library) -> None:
    where = f"url={SITE}&matchType=domain"
    assert lines(library, f"{where}&showNumPages=true") == ["1"]
    assert lines(library, f"{where}&page=0") == lines(library, where)
    for question in (where, f"url={HOME}"):
        assert library.get(f"/cdx/search/cdx?{question}&page=1").status == 400


def test_answers_are_cut_and_say_so() -> None:
    many = Library(*(response(f"{SITE}/{n}", "2026", b"%d" % n) for n in range(30)))
    answer = many.get(f"/cdx/search/cdx?url={SITE}/*&limit=10")
    assert (answer.headers["X-Herodotus-Cut"], answer.body.count(b"\n")) == ("true", 10)


@pytest.mark.parametrize(
    "question",
    ["", "url=", "url=javascript:x", "url=a.b&matchType=fuzzy", "url=a.b&from=yesterday", "url=a.b&to=2026x",
     "url=a.b&limit=ten", "url=a.b&filter=statuscode", "url=a.b&filter=color:red", "url=a.b&fl=color",
     "url=a.b&filter=original:(a*)*b", "url=a.b&filter=original:.*.*.*x", "url=a.b&filter=original:[",
     "url=a.b&filter=original:" + ".%3F" * 30 + "!", "url=a.b&filter=original:" + "(a%7Ca)" * 30 + "!",
     r"url=a.b&filter=original:\\*\\*\\*!", "url=a.b&filter=original:.*.*" + "(a%7Ca)" * 5 + "!",
     "url=a.b&filter=original:(?=a)", "url=a.b&resumeKey=x", "url=a.b&collapse=color",
     "url=a.b" + "&filter=statuscode:200" * 9, "url=a.b" + "&x=1" * 100],
)  # fmt: skip
def test_what_cannot_be_answered_is_a_problem_with_a_reason(library: Library, question: str) -> None:
    answer = library.get(f"/cdx/search/cdx?{question}")
    assert (answer.status, answer.content_type) == (400, "application/problem+json")
    assert len(json.loads(answer.body)["detail"]) > 10


def test_that_there_is_nothing_is_not_said_again_from_memory() -> None:
    library = Library()
    for target in (f"/cdx/search/cdx?url={HOME}", f"/wayback/available?url={HOME}"):
        answer = library.get(target)
        assert answer.headers["Cache-Control"] in ("no-cache", "no-store")
        assert answer.is_of_archive_alone is False, "another peer may have it the next moment"
    library.add(response(HOME, "20260101", b"1"))
    answer = library.get(f"/cdx/search/cdx?url={HOME}")
    assert (len(answer.body.splitlines()), answer.is_of_archive_alone) == (1, True)
    assert library.get(f"/wayback/available?url={HOME}").is_of_archive_alone is True


def test_long_lists_are_written_in_threads_and_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library(*(response(HOME, f"202601{day:02}", b"%d" % day) for day in range(1, 8)))
    targets = [f"/cdx/search/cdx?url={HOME}", f"/web/*/{HOME}", f"/web/timemap/link/{HOME}"]
    targets += [f"/web/timemap/cdxj/{HOME}", f"/web/timemap/json/{HOME}"]
    quick = [library.get(target).body for target in targets]
    asked_in_threads = 0
    in_thread = library.shelf.in_thread

    async def counted(work: Callable[[], Any]) -> Any:
        nonlocal asked_in_threads
        asked_in_threads += 1
        return await in_thread(work)

    monkeypatch.setattr("herodotus.portal.archive_pages.QUICK_ROWS", 5)
    monkeypatch.setattr("herodotus.portal.archive_questions.QUICK_ROWS", 5)
    monkeypatch.setattr(library.shelf, "in_thread", counted)
    assert [library.get(target).body for target in targets] == quick
    # In two more rows are chosen, and it is asked whether the page can be reached now.
    assert asked_in_threads == len(targets) + 2


def test_a_listing_tells_addresses_that_are_no_text() -> None:
    """As imported files may have them."""
    library = Library(response("https://example.org/\udce9", "20260101", b"1"))
    answer = library.get("/web/*/https://example.org/*", {"accept": "application/json"})
    assert (answer.status, b"https://example.org/?" in answer.body) == (200, True)


@pytest.mark.parametrize("mime", ["text/html; charset=x", "no type at all", "t\u00e9xt/html", "\udcff"])
def test_a_type_is_one_word_of_a_line_whatever_an_imported_record_says(mime: str) -> None:
    version = Version(
        id=CaptureId(key=bytes(20), time_s=0, digest=bytes(32)), url=HOME, status=200, mime=mime, size=1,
        is_revisit=False, visits=0, last_seen_s=0, sha1="sha1:A", stored_bytes=1,
    )  # fmt: skip
    assert row_of(version)["mimetype"] in ("text/html", "unk")


@pytest.mark.parametrize("limit", [1, 2, 5, 9])
@pytest.mark.parametrize("url", [HOME, f"{SITE}/*"])
def test_parts_end_however_many_contents_a_second_has(limit: int, url: str) -> None:
    library = Library(
        *(response(HOME, "20260101", b"%d" % number) for number in range(7)),
        response(HOME, "20260102", b"later"),
    )
    found: list[str] = []
    key = ""
    for _ in range(10):
        question = f"url={url}&fl=timestamp,digest&limit={limit}&output=json&showResumeKey=true{key}"
        table = json.loads(library.get(f"/cdx/search/cdx?{question}").body)
        resume = table.pop()[0] if table[-2:-1] == [[]] else ""
        found += [" ".join(row) for row in table[1:] if row]
        if not resume:
            break
        key = f"&resumeKey={resume}"
    assert (len(found), len(set(found))) == (8, 8), "each once, and none is left out"
    assert len(lines(library, f"url={url}&limit={limit}")) == min(limit, 8), "a limit is one"
