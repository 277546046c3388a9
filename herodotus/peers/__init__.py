"""How do peers talk to each other? Calls, the sessions that carry them, the admission of callers, and membership of
the ring."""
