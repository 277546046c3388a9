"""How does a person run a peer? The command line, the daemon around a peer, orders, settings, the service manager."""
