"""What can programs ask of a peer? REST under `/api/v1`: one table of endpoints is its routes and its description."""
