"""Decisions about links between peers: their holders, the peer whose turn it is to fetch, the senders to believe."""
