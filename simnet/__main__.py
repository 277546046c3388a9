"""`python -m simnet`: the testers' command, where no script is on the path."""

from simnet.cli import main

main()
