"""Writes every generated file of `config/` anew; a test fails while one of them differs."""

from ep_campaign.command import run
from ep_campaign.documents import generated


def main() -> None:
    """Writes the generated files."""
    for path, text in generated().items():
        path.write_text(text, encoding="utf-8")
        print(path)


run(main)
