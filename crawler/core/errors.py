"""What can go wrong while crawling, and whose fault is it?

    CrawlError
    ├── OriginError                 the origin broke the rules: record it against the URL, carry on
    │   ├── MalformedUrlError       this is no URL we can fetch
    │   └── MalformedResponseError  what came back is not HTTP, or its head passes our limits
    └── WorldError                  the world failed: record it, try again later
        ├── ForbiddenAddressError   the name leads only to addresses, or to a port, that we never open (SSRF guard)
        ├── UnresolvableError       no address for the name
        ├── UnreachableError        no connection, or it broke before a whole head was there
        │   └── OtherAddressError       no connection to this address, but the name has others
        ├── AnotherTimeError        nothing is known of the host: the URL is due as before
        │   └── TooLateError            the request would have left after its lease had ended
        ├── TooSlowError            no head within the deadline
        ├── RowsUnusableError       a folder of rows cannot be opened, or is damaged
        └── FrontierUnusableError   the frontier's files cannot be used

Those from MalformedResponseError to TooSlowError are `FetchError`s: they carry the URL. Expected answers
(robots said no, a page is gone) are values. Our own mistakes are assertions.
"""


class CrawlError(Exception):
    """Root of everything the crawler raises."""


class OriginError(CrawlError):
    """An origin server, or a link somebody wrote, broke the rules."""


class CrawlWorldError(CrawlError):
    """Network or disk failed; trying later may help."""


class MalformedUrlError(OriginError):
    def __init__(self, text: str, reason: str) -> None:
        self.text = text
        self.reason = reason
        shown = text if len(text) <= 200 else f"{text[:200]}…"
        super().__init__(f"{shown!r} is not a URL to crawl: {reason}")


class FetchError(CrawlError):
    """What failed fetches have in common: the URL and a reason."""

    def __init__(self, url: str, reason: str) -> None:
        self.url = url
        self.reason = reason
        super().__init__(f"{url}: {reason}")


class MalformedResponseError(FetchError, OriginError):
    """The answer is not HTTP, or its head passes our limits."""


class ForbiddenAddressError(FetchError, CrawlWorldError):
    """Every address of the host is private, loopback or otherwise not the public internet; or the port is not one of
    the web's."""


class UnresolvableError(FetchError, CrawlWorldError):
    """DNS knows no address for the host."""


class UnreachableError(FetchError, CrawlWorldError):
    """The connection could not be made, or broke before the whole head was there."""


class OtherAddressError(UnreachableError):
    """No connection to this address, but the name has others, for which the steward is asked first."""


class AnotherTimeError(FetchError, CrawlWorldError):
    """Whoever was to fetch it did not, or brought what is of no use. Nothing is known of its host, and it is due as
    before."""


class TooLateError(AnotherTimeError):
    """The request would have left after its lease had ended: the way to the host, or to our line, took too long. No
    request was sent."""

    def __init__(self, url: str, late_s: float) -> None:
        self.late_s = late_s
        """What passed since permission was given."""
        super().__init__(
            url, f"its lease had ended {late_s:.1f} s after the fetch began, before a request could leave"
        )


class TooSlowError(FetchError, CrawlWorldError):
    """The deadline passed before the whole head was there."""


class RowsUnusableError(CrawlWorldError):
    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"the rows in {path} cannot be used: {reason}")


class FrontierUnusableError(CrawlWorldError):
    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"the frontier in {path} cannot be used: {reason}")
