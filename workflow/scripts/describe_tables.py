"""Writes docs/tables.md anew from the schemas of the tables; a test fails while it differs."""

from pathlib import Path

from ep_campaign.tables import markdown

Path("docs/tables.md").write_text(markdown(), encoding="utf-8")
