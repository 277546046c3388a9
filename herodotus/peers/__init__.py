"""How do peers talk to each other? Calls, the sessions that carry them, who may call, and membership of the ring."""
