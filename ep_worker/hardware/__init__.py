"""Probes: what the hardware beneath a backend can do, by itself. Python, torch and a C compiler; nothing else."""
