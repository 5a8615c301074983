"""Does the harness add to what it times? Its figure for each portable arm against a minimal loop over the same calls.

On GPUs, on a machine with torch: `python -m ep_worker overhead --device cuda`. Blocks alternate in one process.
"""

from __future__ import annotations

import sys

from ep_worker.selfcheck import main

if __name__ == "__main__":
    sys.exit(main(["overhead", "--shape", "decode"]))
