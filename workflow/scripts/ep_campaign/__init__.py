"""The host side of EP Campaign: plan, custody, validation, aggregation, statistics, figures and report. Never imports torch."""
