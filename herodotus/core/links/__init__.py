"""What is decided about links between peers: their holders, whose turn it is to fetch, which senders to believe."""
