"""Tools for people who work on the project: set-up, checks, measurements. Nothing imports them."""
