"""Deliberate breaks, and what catches each: `python -m ep_worker break`."""
