"""What does a stranger see first? `scripts/run` ends here: for now one peer, until Ctrl-C."""

from herodotus.cli import main

if __name__ == "__main__":
    main()
