"""When did each step of a URL's life happen, at all peers of a ring? For `scripts/trace-url`."""
