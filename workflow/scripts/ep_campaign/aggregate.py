"""Aggregation: from the records of all attempts to the tables `attempts`, `records` and `samples`.

One attempt is held at a time, so that memory does not grow with the campaign. Everything was validated before; nothing is
judged, dropped or averaged here.

Legend: S samples, R ranks, P phases.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ep_campaign.errors import CampaignError, Refusal, refuse
from ep_campaign.jsonfile import read_object
from ep_campaign.parquet import ParquetFile
from ep_campaign.record_rows import attempt_row, record_rows
from ep_campaign.tables import ATTEMPTS, RECORDS, SAMPLES
from ep_campaign.validate.figures import read_samples, times
from ep_campaign.validate.finding import VALIDATION_SCHEMA, State
from ep_campaign.validate.folder import read_attempts, read_outcomes
from ep_worker.contract.terms import Boundary, Loop, Mode, Phase

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from ep_campaign.layout import Results
    from ep_campaign.plan import Plan
    from ep_campaign.plan_document import PlanDocument
    from ep_campaign.startfile import Record
    from ep_campaign.validate.attempt import Attempt
    from ep_campaign.validate.finding import Violation

Times = dict[tuple[str, ...], "npt.NDArray[np.int64]"]
_PHASES = tuple(Phase)


def read_validation(plan: PlanDocument, results: Results) -> dict[str, Any]:
    """The validation of a results folder.

    Raises:
        CampaignError: `not_validated`: there is none, or it is of another plan, or it refused the folder.
    """
    file = results.validation.name
    value = read_object(results.validation, file)
    right = value.get("schema") == VALIDATION_SCHEMA and value.get("plan_digest") == plan.digest
    if not right or value.get("state") not in (State.COMPLETE.value, State.PARTIAL.value):
        message = f"is not this version's validation of plan {plan.digest[:16]}: run the validation again"
        raise refuse("not_validated", message, file)
    return value


def aggregate(plan: Plan, results: Results) -> None:
    """Writes the three tables.

    Raises:
        CampaignError: The folder was not validated, or changed since.
        OSError: The disk is full; tables that are not whole are not there.
    """
    late = {item["start"] for item in read_validation(plan, results)["census"]["late_starts"]}
    coder = SampleCoder(plan)
    with ExitStack() as stack:
        attempts, records, samples = (
            stack.enter_context(ParquetFile(results.table(table.name), table)) for table in (ATTEMPTS, RECORDS, SAMPLES)
        )
        for attempt in _attempts(plan, results):
            is_late = attempt.scored and attempt.start.id in late
            held = attempt_times(attempt)
            attempts.add(ATTEMPTS.rows([attempt_row(attempt, late=is_late)]))
            records.add(RECORDS.rows(list(record_rows(attempt, held, late=is_late))))
            if attempt.scored and held:
                samples.add(coder.rows(attempt, held))


def _attempts(plan: Plan, results: Results) -> Iterator[Attempt]:
    for start in plan.starts:
        found: list[Violation] = []
        outcomes = read_outcomes(results, start, found)
        for attempt, _ in read_attempts(plan, results, start, outcomes, found):
            yield attempt
        _raise_changed([violation for violation in found if violation.severity.value == "refuse"])


def attempt_times(attempt: Attempt) -> Times:
    """Raw times [S, R, P] of each measured series of an attempt, by its key.

    Raises:
        CampaignError: They are not whole.
    """
    if attempt.record.unrun:
        return {}
    found: list[Violation] = []
    data = read_samples(attempt, found)
    _raise_changed(found)
    held = ((record.key, record.samples) for record in attempt.record.records if record.samples is not None)
    return {} if data is None else {key: times(data, samples) for key, samples in held}


def _raise_changed(found: list[Violation]) -> None:
    if found:
        raise CampaignError(
            [Refusal(item.code, f"changed since it was validated: found {item.found}", item.file) for item in found]
        )


class SampleCoder:
    """Makes rows of `samples`; every text is a number of a list that the plan gives, so that all parts share it."""

    def __init__(self, plan: Plan) -> None:
        self._texts: dict[str, list[str]] = {
            "start": [start.id for start in plan.starts],
            "cell": [cell["id"] for cell in plan.document["cells"]],
            "boundary": [item.value for item in Boundary],
            "mode": [item.value for item in Mode],
            "loop": [item.value for item in Loop],
        }
        self._codes = {name: {text: code for code, text in enumerate(texts)} for name, texts in self._texts.items()}
        self._dictionaries = {name: pa.array(texts, pa.string()) for name, texts in self._texts.items()}

    def rows(self, attempt: Attempt, held: Times) -> pa.Table:
        """The samples of one attempt: series by series in the order of its record, then sample, then rank."""
        measured = [record for record in attempt.record.records if record.key in held and record.samples is not None]
        counts = [held[record.key].shape[0] * held[record.key].shape[1] for record in measured]
        num_rows = sum(counts)
        columns: dict[str, Any] = {
            "attempt": np.full(num_rows, attempt.record.attempt, dtype=np.int32),
            "chain_length": np.repeat(np.array([r.chain_length or 1 for r in measured], dtype=np.int32), counts),
            "start": self._text("start", [attempt.start.id], [num_rows]),
        }
        for name in ("cell", "boundary", "mode", "loop"):
            texts = [getattr(getattr(record, name), "value", getattr(record, name)) for record in measured]
            columns[name] = self._text(name, texts, counts)
        return SAMPLES.batch(columns | _numbers(measured, held, num_rows))

    def _text(self, name: str, texts: list[str], counts: list[int]) -> pa.DictionaryArray:
        codes = np.array([self._codes[name][text] for text in texts], dtype=np.int32)
        return pa.DictionaryArray.from_arrays(np.repeat(codes, counts), self._dictionaries[name], safe=False)


@lru_cache(maxsize=64)
def _axes(num_samples: int, num_ranks: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int16]]:
    """Sample and rank of each row of a series."""
    sample = np.repeat(np.arange(num_samples, dtype=np.int32), num_ranks)
    return sample, np.tile(np.arange(num_ranks, dtype=np.int16), num_samples)


def _numbers(measured: list[Record], held: Times, num_rows: int) -> dict[str, Any]:
    """Columns `sample`, `rank` and the times of each phase."""
    sample, rank = np.empty(num_rows, dtype=np.int32), np.empty(num_rows, dtype=np.int16)
    by_phase = {phase: np.zeros(num_rows, dtype=np.int64) for phase in _PHASES}
    absent = {phase: np.ones(num_rows, dtype=bool) for phase in _PHASES}
    first = 0
    for record in measured:
        assert record.samples is not None
        times_SRP = held[record.key]
        num_samples, num_ranks, _ = times_SRP.shape
        rows = slice(first, first + num_samples * num_ranks)
        sample[rows], rank[rows] = _axes(num_samples, num_ranks)
        for column, phase in enumerate(record.samples.phases):
            by_phase[phase][rows].reshape(num_samples, num_ranks)[:] = times_SRP[:, :, column]
            absent[phase][rows] = False
        first = rows.stop
    named = {f"{phase.value}_ns": pa.array(by_phase[phase], mask=absent[phase]) for phase in _PHASES}
    return {"sample": sample, "rank": rank, **named}
