"""Shared by all tests. Its place makes the helper modules of this folder (`plans`, `synthetic`) importable by name."""
