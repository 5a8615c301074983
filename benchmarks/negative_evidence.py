"""Does every way of measuring wrongly that we know of get caught? Runs each for real and says which gate found it.

The same without this environment, on a machine with torch: `python -m ep_worker break --device cuda`.
"""

from __future__ import annotations

import sys

from ep_worker.breaks.run import main
from ep_worker.contract.terms import Device

if __name__ == "__main__":
    sys.exit(main(Device.CPU, 1, None, ()))
