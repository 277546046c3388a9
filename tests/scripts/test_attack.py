"""Are the attacks what they say?  Those on a real ring take minutes and are run by hand (scripts/attack)."""

import re
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator

from scripts.attacks import with_programs
from scripts.attacks.run import ATTACKS, main

ROOT = Path(__file__).parents[2]
URLS = ("http://a.example/", "http://b.example/x?y=1")
DATES = (datetime(1970, 1, 2, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC))


def test_each_attack_is_listed_with_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(ATTACKS)
    assert all(re.fullmatch(r"[a-z-]+ +[A-Z0-9].*\.", line) for line in lines)


def test_the_security_page_names_each(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs/understand/security.md").read_text(encoding="utf-8")
    assert [name for name in ATTACKS if f"`scripts/attack {name}`" not in page] == []


def test_an_unknown_one_is_refused_with_those_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["everything"])
    assert ended.value.code == 2
    assert "phantoms" in capsys.readouterr().err


def test_forged_captures_are_good_warc_of_the_dates_that_they_claim(tmp_path: Path) -> None:
    file = tmp_path / "forged.warc.gz"
    digests = with_programs.write_forged(file, URLS, DATES)
    found = []
    with file.open("rb") as stream:
        for record in ArchiveIterator(stream):
            fields = record.rec_headers
            digest = sha256(record.content_stream().read()).hexdigest()
            found.append((fields["WARC-Target-URI"], fields["WARC-Date"], digest))
    assert [(url, date) for url, date, _ in found] == [
        (url, f"{date:%Y-%m-%dT%H:%M:%SZ}") for url in URLS for date in DATES
    ]
    assert {digest for _, _, digest in found} == digests
    assert len(digests) == len(URLS) * len(DATES)
