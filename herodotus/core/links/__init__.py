"""What is decided about links between peers: who must hold them, whose turn it is to fetch, whom to believe."""
