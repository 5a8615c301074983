"""Entry: `python -m ep_serve serve ...`; the front starts its own ranks with `python -m ep_serve nursery ...`."""

import sys

from ep_serve.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
