"""``python -m blockveil``: the command line ``blockveil``."""

from blockveil.flows.cli import main

if __name__ == "__main__":
    main()
