"""The stage: from the tables and the validation of a results folder to its cells, contrasts and statistics."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ep_campaign.aggregate import read_validation
from ep_campaign.analysis.frames import cell_rows, contrast_rows
from ep_campaign.analysis.rows import Attempt, Record, read_rows
from ep_campaign.analysis.summarise import summarise
from ep_campaign.jsonfile import read_object
from ep_campaign.parquet import ParquetFile
from ep_campaign.result_tables import CELLS, CONTRASTS
from ep_campaign.summary import write_summary
from ep_campaign.tables import ATTEMPTS, RECORDS

if TYPE_CHECKING:
    from ep_campaign.layout import Results
    from ep_campaign.plan import Plan
    from ep_campaign.summary import Summary


def admission_s(results: Results) -> float:
    """Wall time of every brief run that admission made [s]; one that never ended left no record and no time."""
    paths = sorted((results.root / "admission").glob("ep*/*/attempt-*/start.json"))
    records = (read_object(path, str(path.relative_to(results.root))) for path in paths)
    return math.fsum(record["clock"]["seconds"] for record in records)


def analyse(plan: Plan, results: Results) -> Summary:
    """Writes `tables/cells.parquet`, `tables/contrasts.parquet` and, last, `statistics.json`.

    Raises:
        CampaignError: The folder was not validated or aggregated, or by another version.
        OSError: The disk is full; files that are not whole are not there.
    """
    validation = read_validation(plan, results)
    records = read_rows(results.table(RECORDS.name), RECORDS, Record)
    attempts = read_rows(results.table(ATTEMPTS.name), ATTEMPTS, Attempt)
    summary = summarise(plan, records, attempts, validation, admission_s(results))
    with ParquetFile(results.table(CELLS.name), CELLS) as cells:
        cells.add(CELLS.rows(cell_rows(summary.levels)))
    with ParquetFile(results.table(CONTRASTS.name), CONTRASTS) as contrasts:
        contrasts.add(CONTRASTS.rows(contrast_rows(summary.contrasts)))
    write_summary(summary, results.statistics)
    return summary
