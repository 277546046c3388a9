"""The peer: the archive store, link exchange, replication, the portal, settings, the wiring of it all.

`herodotus.peer` is the composition root, `herodotus.operate.cli` the command line. It does not know the simulator.
"""


def __getattr__(name: str) -> str:
    """`__version__` is looked up once somebody asks: that takes as long as starting Python."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version

    found = globals()[name] = version("herodotus")
    return found
