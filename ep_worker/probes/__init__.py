"""Measurements of the measuring: kernel times by the profiler, and this harness against a minimal loop. Never scored."""
