"""Where does each value come from? Layers, later ones winning: default, preset, file, environment, flag."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from herodotus.core.errors import SettingError
from herodotus.core.settings.fields import (
    HostPort,
    fields_of,
    nearest,
    read_table,
    read_value,
    shown,
    shown_key,
)
from herodotus.core.settings.sections import HTTP_PORT_OFFSET, PRESETS, SECTIONS, Settings
from herodotus.home.toml_files import read_toml

ENVIRONMENT_PREFIX = "HERODOTUS_"
# Variables that are not settings: where the home is, and the key's passphrase.
_OTHER_VARIABLES = frozenset({"HERODOTUS_HOME", "HERODOTUS_PASSPHRASE"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """Values by dotted name, each with the place where it was written."""

    values: Mapping[str, object] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    preset: str | None = None
    preset_source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effective:
    settings: Settings
    preset: str
    origins: Mapping[str, str]


def known_keys() -> list[str]:
    return [f"{section}.{name}" for section, kind in SECTIONS.items() for name in fields_of(kind)]


def _preset(value: object, source: str) -> str:
    if not isinstance(value, str) or value not in PRESETS:
        hint = nearest(str(value), list(PRESETS))
        raise SettingError(
            source=source, key="preset", problem=f"must be a preset's name, not {shown(value)}", hint=hint
        )
    return value


def file_layer(path: Path) -> Layer:
    source = str(path)
    values: dict[str, object] = {}
    preset = None
    for name, entry in read_toml(path).items():
        if name == "preset":
            preset = _preset(entry, source)
        elif name not in SECTIONS:
            hint = nearest(name, [*SECTIONS, "preset"])
            raise SettingError(source=source, key=shown_key(name), problem="is not a section", hint=hint)
        elif not isinstance(entry, dict):
            raise SettingError(
                source=source, key=name, problem=f"is a section: write [{name}] on a line of its own"
            )
        else:
            table = read_table(SECTIONS[name], entry, source=source, prefix=f"{name}.")
            values |= {f"{name}.{key}": value for key, value in table.items()}
    return Layer(values=values, sources=dict.fromkeys(values, source), preset=preset, preset_source=source)


def text_layer(texts: Mapping[str, tuple[str, str]]) -> Layer:
    """From (source, text) by dotted name: how environment variables and flags are read."""
    values: dict[str, object] = {}
    for key, (source, text) in texts.items():
        section, _, name = key.partition(".")
        one = fields_of(SECTIONS[section])[name]
        values[key] = read_value(one, text, source=source, key=key, is_text=True)
    return Layer(values=values, sources={key: texts[key][0] for key in values})


def environment_layer(environment: Mapping[str, str] | None = None) -> Layer:
    """`HERODOTUS_HTTP_LISTEN` sets `http.listen`. An unknown variable is refused like an unknown line of the file."""
    environment = os.environ if environment is None else environment
    names = {ENVIRONMENT_PREFIX + key.replace(".", "_").upper(): key for key in known_keys()}
    texts: dict[str, tuple[str, str]] = {}
    preset = None
    for variable, text in sorted(environment.items()):
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in _OTHER_VARIABLES:
            continue
        if variable == f"{ENVIRONMENT_PREFIX}PRESET":
            preset = _preset(text, f"environment {variable}")
        elif variable in names:
            texts[names[variable]] = (f"environment {variable}", text)
        else:
            hint = nearest(variable, [*names, f"{ENVIRONMENT_PREFIX}PRESET"])
            key = shown_key(variable)
            raise SettingError(source="environment", key=key, problem="is not a setting", hint=hint)
    source = f"environment {ENVIRONMENT_PREFIX}PRESET"
    return replace(text_layer(texts), preset=preset, preset_source=source)


def resolve(*layers: Layer) -> Effective:
    """The later layer wins, value by value. The last preset named replaces the defaults."""
    preset, preset_source = "wan", "default"
    for layer in layers:
        if layer.preset is not None:
            preset, preset_source = layer.preset, layer.preset_source
    values: dict[str, object] = {
        f"{section}.{name}": one.default
        for section, kind in SECTIONS.items()
        for name, one in fields_of(kind).items()
    }
    origins = {"preset": preset_source, **dict.fromkeys(values, "default")}
    values |= PRESETS[preset]
    origins |= dict.fromkeys(PRESETS[preset], f"preset {preset}")
    for layer in layers:
        values |= layer.values
        origins |= layer.sources
    return Effective(settings=_settings(values), preset=preset, origins=origins)


def _settings(values: Mapping[str, object]) -> Settings:
    parts: dict[str, Any] = {
        section: kind(**{name: values[f"{section}.{name}"] for name in fields_of(kind)})
        for section, kind in SECTIONS.items()
    }
    return Settings(**parts)


def with_http_beside_ring(effective: Effective) -> Effective:
    """If only the peer's port is chosen, the portal follows it, at port + 1000."""
    ring, http = effective.settings.ring.listen, effective.settings.http.listen
    is_chosen = effective.origins["http.listen"] not in ("default", f"preset {effective.preset}")
    if is_chosen or effective.origins["ring.listen"] == effective.origins["http.listen"] or ring.port == 0:
        return effective
    beside = HostPort(host=http.host, port=ring.port + HTTP_PORT_OFFSET)
    settings = replace(effective.settings, http=replace(effective.settings.http, listen=beside))
    return replace(
        effective, settings=settings, origins={**effective.origins, "http.listen": "beside ring.listen"}
    )
