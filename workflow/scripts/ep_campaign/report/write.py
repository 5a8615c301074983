"""Writes the three forms of a campaign's report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ep_campaign.report.compose import compose
from ep_campaign.report.html import render_html
from ep_campaign.report.markdown import render_markdown
from ep_campaign.report.pull_request import render_pull_request
from ep_campaign.report.source import read_source
from ep_worker.contract.canonical import write_atomically

if TYPE_CHECKING:
    from pathlib import Path

    from ep_campaign.layout import Results


def write_report(results: Results) -> list[Path]:
    """Writes RESULTS.md, report.html and pr.md; the same folder gives the same bytes.

    Raises:
        CampaignError: What an earlier stage writes is missing, or is not what it wrote.
    """
    document = compose(read_source(results))
    texts = {
        "RESULTS.md": render_markdown(document),
        "report.html": render_html(document, results.figures),
        "pr.md": render_pull_request(document),
    }
    paths = []
    for name, text in texts.items():
        path = results.root / name
        write_atomically(path, text)
        paths.append(path)
    return paths
