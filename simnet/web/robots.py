"""What does a host's robots.txt say, and what does that forbid?

The answer is computed from the host, not by reading the file back, so the oracle and a crawler's parser are
independent of one another.
"""

from simnet.web.hosts import WebHost


def robots_body(host: WebHost) -> str:
    if host.robots == "closed":
        return "User-agent: *\nDisallow: /\n"
    if host.robots == "soft":
        # A site that answers every unknown path with its "not found" page and 200: no rule in it can be read.
        return "<!DOCTYPE html><html><body><h1>Page not found</h1></body></html>\n"
    rules = ["User-agent: *"]
    if host.robots == "sections":
        rules += [f"Disallow: /{host.closed_section}/", f"Allow: /{host.closed_section}/silver/"]
    if host.robots == "delay":
        rules += ["Crawl-delay: 2", "Disallow:"]
    if host.trap != "none" and host.number % 2:
        rules.append(f"Disallow: /{host.trap}/")
    if len(rules) == 1:
        rules.append("Disallow:")
    return "\n".join([*rules, "", "User-agent: bad-robot", "Disallow: /", ""])


def is_allowed(host: WebHost, path: str) -> bool:
    """By RFC 9309: the longest match wins, an unreachable robots.txt (5xx) forbids everything, none
    nothing."""
    if path == "/robots.txt":
        return True
    if host.robots in ("closed", "broken"):
        return False
    if host.robots in ("none", "soft"):
        return True
    if host.trap != "none" and host.number % 2 and path.startswith(f"/{host.trap}/"):
        return False
    if host.robots == "sections" and path.startswith(f"/{host.closed_section}/"):
        return path.startswith(f"/{host.closed_section}/silver/")
    return True
