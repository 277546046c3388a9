"""The peer's decisions without input or output: equal inputs give equal answers."""
