"""Writes every generated document anew; a test fails while one of them differs."""

from pathlib import Path

from ep_campaign.command import run
from ep_campaign.custody.rights import manifest_text
from ep_campaign.documents import generated
from ep_campaign.tables import markdown


def main() -> None:
    """Writes the generated files."""
    for path, text in {
        **generated(),
        Path("docs/tables.md"): markdown(),
        Path("deploy/rbac.yaml"): manifest_text(),
    }.items():
        path.write_text(text, encoding="utf-8")
        print(path)


run(main)
