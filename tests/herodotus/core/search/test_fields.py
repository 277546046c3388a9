"""What is a word of the index, and what names a spell?"""

from herodotus.core.search.fields import BREAK, prepared, sites_of, spell_id


def test_ascii_text_stays_as_it_is() -> None:
    text = "plain words, as they stand"
    assert prepared(text) is text


def test_characters_of_scripts_without_spaces_stand_apart_from_both_neighbours() -> None:
    assert prepared("首都").split(BREAK) == ["首", "都", ""]
    assert prepared("iPhone手机").split(BREAK) == ["iPhone", "手", "机", ""]
    assert prepared("é, 都 x") == f"é, 都{BREAK} x"


def test_decomposed_letters_are_composed() -> None:
    assert prepared("cafe\u0301s") == "cafés"


def test_a_spell_is_named_by_its_url_and_its_first_second() -> None:
    assert spell_id(2**64 - 1, 1_700_000_000) == 0xB3FA388B78C6E822
    assert spell_id(2**64 - 1, 1_700_000_001) != spell_id(2**64 - 1, 1_700_000_000)


def test_a_site_holds_the_hosts_below_it() -> None:
    assert sites_of("www.Example.org.") == ["www.example.org", "example.org", "org"]
    assert sites_of("192.0.2.1") == ["192.0.2.1"]
    assert sites_of("[2001:db8::1]") == ["[2001:db8::1]"]
