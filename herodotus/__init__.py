"""The peer: the archive store, link exchange, replication, the portal, settings, the wiring of it all.

`herodotus.peer` is the composition root, `herodotus.operate.cli` the command line. It does not know the simulator.
"""

from importlib.metadata import version

__version__ = version("herodotus")
