"""Elastic campaigns: what growing the EP width of a live serving deployment buys and costs.

`campaign` and `expand` make the plan; `start`, `sweep` and `resize` measure one start; `validate`, `aggregate`, `analyse`,
`figures` and `report` are the stages after it.
"""
