"""Which settings are there? Each part of the peer receives its own section and nothing else."""

from dataclasses import dataclass, field
from types import MappingProxyType

from herodotus.core.fields import Endpoint, choice, endpoint, line, number, setting, web_address, whole


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSettings:
    """Who runs this peer."""

    contact: str = setting(
        "",
        web_address(),
        "page or address that a site owner can turn to; sent with every request, required by public networks",
    )
    nickname: str = setting("", line(40, "a name"), "shown on the start page beside the peer's id")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """The port that readers open in a browser."""

    listen: Endpoint = setting(
        Endpoint(host="0.0.0.0", port=5484),  # noqa: S104  # readers anywhere are the point; test and lan differ
        endpoint(),
        "where readers reach the portal; port 0 takes any free one",
    )
    connections_max: int = setting(
        512, whole(8, 100_000), "open connections at once; one more is told to come back later"
    )
    idle_s: float = setting(
        30.0,
        number(1, 3600, "seconds"),
        "a connection that asks nothing for so long is closed, so the slow cannot pile up",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleSettings:
    """How the daemon stops."""

    drain_s: float = setting(
        8.0,
        number(0.1, 600, "seconds"),
        "time for open work after the first stop signal; service managers kill after 10 s",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """What the peer writes about itself."""

    level: str = setting(
        "info", choice("debug", "info", "warning", "error"), "least weight of a line that is written"
    )
    format: str = setting(
        "text", choice("text", "json"), "lines for people, or one JSON object a line for machines"
    )
    file_bytes_max: int = setting(
        10_000_000,
        whole(100_000, 1_000_000_000, "bytes"),
        "a log file of this size is put aside; five are kept",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    operator: OperatorSettings = field(default_factory=OperatorSettings)
    http: HttpSettings = field(default_factory=HttpSettings)
    lifecycle: LifecycleSettings = field(default_factory=LifecycleSettings)
    log: LogSettings = field(default_factory=LogSettings)


SECTIONS: MappingProxyType[str, type] = MappingProxyType(
    {"operator": OperatorSettings, "http": HttpSettings, "lifecycle": LifecycleSettings, "log": LogSettings}
)

# A preset moves several defaults together; whatever the file, the environment or a flag says comes after it.
PRESETS: MappingProxyType[str, MappingProxyType[str, object]] = MappingProxyType(
    {
        "wan": MappingProxyType({}),
        "lan": MappingProxyType({"http.connections_max": 128, "http.idle_s": 120.0}),
        "test": MappingProxyType(
            {
                "http.listen": Endpoint(host="127.0.0.1", port=0),
                "http.connections_max": 64,
                "lifecycle.drain_s": 2.0,
            }
        ),
    }
)
