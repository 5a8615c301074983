"""The report of a campaign: one document, rendered as Markdown, as a self-contained page, and as a pull request's text."""
