"""Does the right layer win, and is whatever we do not know refused by name?"""

from pathlib import Path

import pytest

from herodotus.core.errors import FileSyntaxError, SettingError, StorageFailure
from herodotus.core.settings.fields import HostPort, fields_of, kind_of
from herodotus.core.settings.sections import PRESETS, SECTIONS, Settings
from herodotus.home.toml_files import read_toml
from herodotus.operate.settings.load import (
    Layer,
    environment_layer,
    file_layer,
    known_keys,
    resolve,
    text_layer,
)
from herodotus.operate.settings.render import commented_file, effective_rows


def written(folder: Path, content: str | bytes) -> Path:
    file = folder / "config.toml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def test_default_preset_file_environment_and_flag_win_in_this_order(tmp_path: Path) -> None:
    file = file_layer(written(tmp_path, 'preset = "lan"\n[http]\nidle_s = 3\n[log]\nlevel = "error"\n'))
    environment = environment_layer({"HERODOTUS_LOG_LEVEL": "debug", "HERODOTUS_OPERATOR_NICKNAME": "env"})
    flags = text_layer({"operator.nickname": ("--nickname", "flag")})
    effective = resolve(file, environment, flags)
    settings, origins = effective.settings, effective.origins
    assert (settings.lifecycle.drain_s, origins["lifecycle.drain_s"]) == (8.0, "default")
    assert (settings.http.connections_max, origins["http.connections_max"]) == (128, "preset lan")
    assert (settings.http.idle_s, origins["http.idle_s"]) == (3.0, str(tmp_path / "config.toml"))
    assert (settings.log.level, origins["log.level"]) == ("debug", "environment HERODOTUS_LOG_LEVEL")
    assert (settings.operator.nickname, origins["operator.nickname"]) == ("flag", "--nickname")
    assert (effective.preset, origins["preset"]) == ("lan", str(tmp_path / "config.toml"))


def test_a_preset_of_the_environment_replaces_the_files_but_not_the_files_values(tmp_path: Path) -> None:
    file = file_layer(written(tmp_path, 'preset = "lan"\n[http]\nconnections_max = 99\n'))
    effective = resolve(file, environment_layer({"HERODOTUS_PRESET": "test"}))
    assert effective.preset == "test"
    assert effective.settings.http.connections_max == 99
    assert effective.settings.http.listen == HostPort(host="127.0.0.1", port=0)
    assert effective.settings.http.idle_s == 30.0  # lan's 120 went with lan


def test_without_layers_the_defaults_hold() -> None:
    assert resolve().settings == Settings()


def test_only_in_tests_no_other_peer_fetches_a_page_once_more() -> None:
    shares = {preset: resolve(Layer(preset=preset)).settings.copies.cross_fetch_share for preset in PRESETS}
    assert shares == dict.fromkeys(PRESETS, 0.02) | {"test": 0.0}


@pytest.mark.parametrize("preset", PRESETS)
def test_every_value_of_a_preset_is_a_known_and_fit_one(preset: str) -> None:
    for key, value in PRESETS[preset].items():
        section, _, name = key.partition(".")
        kind = kind_of(fields_of(SECTIONS[section])[name])
        read = kind.read_text(str(value)) if isinstance(value, HostPort) else kind.read(value)
        assert read == value


@pytest.mark.parametrize("preset", PRESETS)
def test_the_commented_file_of_a_preset_says_what_is_in_force(preset: str, tmp_path: Path) -> None:
    text = commented_file(preset, {})
    assert resolve(file_layer(written(tmp_path, text))).settings == resolve(Layer(preset=preset)).settings
    spelt = "\n".join(
        line.removeprefix("# ") if " = " in line and line.startswith("# ") else line
        for line in text.splitlines()
    )
    assert spelt != text
    layer = file_layer(written(tmp_path, spelt))
    assert set(layer.values) == set(known_keys())
    assert resolve(layer).settings == resolve(Layer(preset=preset)).settings


def test_the_commented_file_puts_what_was_chosen_in_force(tmp_path: Path) -> None:
    file = written(tmp_path, commented_file("wan", {"operator.contact": "https://example.org/a?b=\"'"}))
    assert dict(file_layer(file).values) == {"operator.contact": "https://example.org/a?b=\"'"}


def test_every_setting_says_its_kind_and_its_reason() -> None:
    text = commented_file("wan", {})
    assert "# open connections at once; further readers get 503\n" in text
    assert "# a whole number from 8 to 100000\n# connections_max = 512\n" in text
    assert '# listen = "0.0.0.0:5484"\n' in text


def test_the_rows_in_force_are_written_as_toml_writes_them() -> None:
    rows = {key: (value, origin) for key, value, origin in effective_rows(resolve(Layer(preset="test")))}
    assert rows["http.listen"] == ('"127.0.0.1:0"', "preset test")
    assert rows["lifecycle.drain_s"] == ("2.0", "preset test")
    assert rows["log.file_bytes_max"] == ("10000000", "default")
    assert rows["preset"][0] == '"test"'


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("[http]\nlisen = 1\n", "{file}: http.lisen is not a setting; did you mean http.listen?"),
        ("[htp]\n", "{file}: htp is not a section; did you mean http?"),
        ("http = 3\n", "{file}: http is a section: write [http] on a line of its own"),
        (
            "[http]\nidle_s = true\n",
            "{file}: http.idle_s must be a number from 1 to 3600 (seconds), not true",
        ),
        (
            "[http]\nconnections_max = 7\n",
            "{file}: http.connections_max must be a whole number from 8 to 100000, not 7",
        ),
        (
            f"[http]\nconnections_max = 0x{'f' * 9000}\n",
            "{file}: http.connections_max must be a whole number",
        ),
        ('preset = "wann"\n', "{file}: preset must be a preset's name, not 'wann'; did you mean wan?"),
        ("preset = 3\n", "{file}: preset must be a preset's name, not 3; known are wan, lan, test"),
        ('["a\\nb"]\n', r"{file}: 'a\nb' is not a section; known are"),
        (f"{'x' * 9000} = 1\n", "{file}: '" + "x" * 56 + "... is not a section"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_value_that_cannot_be_is_refused_by_file_and_key(
    tmp_path: Path, content: str, sentence: str
) -> None:
    file = written(tmp_path, content)
    with pytest.raises(SettingError) as caught:
        file_layer(file)
    assert str(caught.value).startswith(sentence.format(file=file))
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400 + len(str(file))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            b"[http]\nlisten = \n",
            "is not valid TOML: Invalid value (at line 2, column 10); correct that line",
        ),
        (b"[log]\n[log]\n", "is not valid TOML: Cannot declare ('log',) twice (at line 2, column 5)"),
        (b"a = '\xff'\n", "is not UTF-8 text (byte 5); save it as UTF-8"),
        (b"\x7fELF\x02\x01\x01\x00", "is not valid TOML"),
        (b"a = " + b"9" * 5000, "holds a number too long or lists too deep to be read"),
        (b"a = " + b"[" * 50_000, "holds a number too long or lists too deep to be read"),
        (b"#" * 1_000_001, "is larger than 1 MB"),
    ],
    ids=["value", "twice", "latin1", "binary", "digits", "depth", "size"],
)
def test_a_file_that_is_not_toml_is_named_with_its_line(tmp_path: Path, content: bytes, words: str) -> None:
    file = written(tmp_path, content)
    with pytest.raises(FileSyntaxError) as caught:
        read_toml(file)
    assert str(caught.value).startswith(f"{file} {words}")
    assert caught.value.exit_code == 2


def test_a_folder_in_place_of_the_file_is_a_failure_of_the_world(tmp_path: Path) -> None:
    with pytest.raises(StorageFailure) as caught:
        read_toml(tmp_path)
    assert str(caught.value) == f"cannot read {tmp_path}: is a directory; check the file and its owner"
    assert caught.value.exit_code == 1


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        (
            "HERODOTUS_HTTP_LISEN",
            "x",
            "environment: HERODOTUS_HTTP_LISEN is not a setting; did you mean HERODOTUS_HTTP_LISTEN?",
        ),
        (
            "HERODOTUS_HTTP_LISTEN",
            "home:80",
            "environment HERODOTUS_HTTP_LISTEN: http.listen must begin with an IP address, not the name 'home'",
        ),
        (
            "HERODOTUS_PRESET",
            "wam",
            "environment HERODOTUS_PRESET: preset must be a preset's name, not 'wam'; did you mean wan?",
        ),
    ],
)
def test_a_wrong_variable_is_refused_like_a_line_of_the_file(
    variable: str, value: str, sentence: str
) -> None:
    with pytest.raises(SettingError) as caught:
        environment_layer({variable: value, "PATH": "/bin"})
    assert str(caught.value) == sentence


def test_the_variables_of_home_and_passphrase_are_not_settings() -> None:
    layer = environment_layer(
        {"HERODOTUS_HOME": "/h", "HERODOTUS_PASSPHRASE": "p", "_HERODOTUS_COMPLETE": "x"}
    )
    assert dict(layer.values) == {}
