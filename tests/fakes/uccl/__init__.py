"""A fake of UCCL's package."""

__version__ = "0.1.1"
