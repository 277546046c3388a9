"""`python -m herodotus`: the command line, where no script is on the path."""

from herodotus.operate.cli import main

if __name__ == "__main__":
    main()
