"""Entry: `python -m ep_worker launch SPEC OUT`."""

import os
import sys
import time

BEGAN_AT_NS = time.monotonic_ns()  # before anything else is imported

from ep_worker.launch import main  # noqa: E402

if __name__ == "__main__":
    status = main(sys.argv[1:], BEGAN_AT_NS)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # everything is written; taking torch down again would cost every start another 0.1 s
