"""What to fetch next, may we, and what did we get?

Canonical URLs, the frontier, robots, politeness, the fetcher and link extraction. It knows neither the ring
nor the store: it has ports for both.
"""
