"""Which web can be crawled without the internet?

A synthetic web: purely a function of (seed, URL, day), in the shape of the thesis's table 3.1, with the
troubles of the real one, and an oracle that knows the right results of a crawl. Asked by simulated fetchers
(`Web.respond`) and served on loopback (`simnet web`).
"""

from simnet.web.hosts import WebHost, WebSettings
from simnet.web.oracle import Oracle
from simnet.web.pages import PageLink
from simnet.web.site import Response, Web, WebRequest

__all__ = ["Oracle", "PageLink", "Response", "Web", "WebHost", "WebRequest", "WebSettings"]
