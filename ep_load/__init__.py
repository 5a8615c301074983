"""Load on a serving endpoint, stamped chunk by chunk: one process, standard library only.

Nothing is parsed while load runs, nothing is ever sent twice, and what was not seen is null and never 0.
"""
