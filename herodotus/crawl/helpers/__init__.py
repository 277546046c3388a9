"""How does a peer that nobody can call fetch for those that own URLs? `desk` is the owner's side, `helping` its own."""

from herodotus.crawl.helpers.desk import DeskParts, HelpedFetcher, WorkDesk
from herodotus.crawl.helpers.helping import Helping, HelpingParts

__all__ = ["DeskParts", "HelpedFetcher", "Helping", "HelpingParts", "WorkDesk"]
