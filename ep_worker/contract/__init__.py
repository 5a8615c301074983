"""What the ranks and the host side agree on. Standard library only, Python 3.10 and later."""
