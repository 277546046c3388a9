"""The ring's rules as pure code: what a peer decides, given messages, the time and seeded chance."""
