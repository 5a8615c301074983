"""The host side of EP Campaign: plan, validation, aggregation, statistics, figures and report.

Never imports torch: it must run on a workstation or a controller that has none.
"""
