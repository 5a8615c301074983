"""`python -m ep_load run SPEC OUT` and `python -m ep_load known-delay OUT`."""

import sys

from ep_load.command import main

sys.exit(main(sys.argv[1:]))
