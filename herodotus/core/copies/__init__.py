"""What decides about copies: who holds what, what two holders do not share, and when a copy may go."""
