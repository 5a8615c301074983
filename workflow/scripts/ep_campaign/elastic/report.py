"""The report of an elastic campaign, as Markdown and as one page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ep_campaign.elastic import report_custody, report_levels, report_resize
from ep_campaign.elastic.analyse import read_elastic_statistics
from ep_campaign.elastic.published import read_study
from ep_campaign.published_series import PUBLISHED
from ep_campaign.report.document import Document, Paragraph, Quoted, Rank, Section
from ep_campaign.report.html import render_html
from ep_campaign.report.markdown import render_markdown
from ep_worker.contract.canonical import write_atomically

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from ep_campaign.elastic.plan import ElasticPlan
    from ep_campaign.elastic.published import Study
    from ep_campaign.layout import Results


def write_elastic_report(plan: ElasticPlan, results: Results) -> list[Path]:
    """Writes RESULTS.md and report.html; the same folder gives the same bytes.

    Raises:
        CampaignError: What an earlier stage writes, or the published study, is missing or is not what it should be.
    """
    name = plan.document["published"]
    study = None if name is None else read_study(PUBLISHED / name)
    document = compose_elastic(plan, read_elastic_statistics(plan, results), study)
    texts = {"RESULTS.md": render_markdown(document), "report.html": render_html(document, results.figures)}
    for file, text in texts.items():
        write_atomically(results.root / file, text)
    return [results.root / file for file in texts]


def compose_elastic(plan: ElasticPlan, statistics: dict[str, Any], study: Study | None) -> Document:
    """The whole report."""
    census = statistics["census"]
    stamp = "" if statistics["state"] == "complete" else "PARTIAL"
    sections = (
        report_levels.answer(plan, statistics),
        report_resize.decision(plan, statistics),
        report_resize.resizes(plan, statistics),
        report_levels.equal_gpus(plan, statistics),
        report_levels.cells(plan, statistics),
        report_custody.configuration(plan, statistics),
        report_custody.client(plan, statistics),
        report_custody.custody(statistics),
        report_custody.limits(plan),
        report_levels.published(plan, statistics, study),
        _identity(plan, census),
    )
    return Document(f"Elastic EP: {plan.name}", stamp, sections)


def _identity(plan: ElasticPlan, census: dict[str, Any]) -> Section:
    spent = f"{census['seconds']:,.0f} s were spent on all attempts"
    text = (
        f"{census['num_ok_starts']} of {census['num_starts']} starts are ok; {spent}. Plan ",
        Quoted(plan.digest),
        ".",
    )
    return Section("identity", "Identity", Rank.DETAIL, (Paragraph(text),))
