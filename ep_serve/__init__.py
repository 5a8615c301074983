"""A small serving engine whose expert-parallel group grows and shrinks while it serves: a functional stand-in, on a CPU.

It imports nothing here, so that the front, which has no use for torch, starts without it.
"""
