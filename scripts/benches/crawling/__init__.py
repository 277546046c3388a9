"""The parts of `scripts/bench crawl`: an origin that is never the bottleneck, and clients that ask it."""
