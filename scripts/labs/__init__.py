"""Laboratories: real peers on the lines that volunteers have, behind real routers. Started by scripts/lab."""
