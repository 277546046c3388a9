"""What `scripts/run` can show: a ring of five peers, one peer, somebody's own site."""
