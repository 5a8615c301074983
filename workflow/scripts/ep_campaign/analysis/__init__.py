"""From records and attempts to levels, contrasts, verdicts and `statistics.json`; every statistic is one of `stats`."""
