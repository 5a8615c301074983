"""The attempts of an elastic results folder, read once, with what may be wrong with their files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ep_campaign.elastic.startfile import ElasticStartFile, read_elastic_start, read_runs
from ep_campaign.errors import CampaignError
from ep_campaign.layout import read_outcome
from ep_campaign.validate.finding import Violation, missing, refusal, unreadable
from ep_worker.contract.canonical import sha256_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ep_campaign.elastic.loader import Loaded
    from ep_campaign.elastic.plan import ElasticPlan, ElasticStart
    from ep_campaign.layout import Results


@dataclass(frozen=True)
class ElasticAttempt:
    """One attempt.

    Attributes:
        start: Its start.
        folder: Its folder.
        record: What it says.
        runs: Its runs of load, by cell.
        counted: Whether it is the one that its start is judged by: the last of the last job.
    """

    start: ElasticStart
    folder: Path
    record: ElasticStartFile
    runs: dict[str, Loaded]
    counted: bool


def read_attempts(plan: ElasticPlan, results: Results, found: list[Violation]) -> Iterator[ElasticAttempt]:
    """Every attempt that can be read, in plan order; what cannot be is added to `found`."""
    for start in plan.starts:
        accounts: dict[int, dict[str, Any]] = {}
        for path in sorted(results.start(start.id).glob("outcome-*.json")):
            accounts |= {one["attempt"]: one for one in read_outcome(path)["attempts"]}
        if not accounts:
            where = f"starts/{start.id}"
            found.append(missing("start_missing", where, "", "no outcome", "one", "run the same command again"))
            continue
        last = max(accounts)
        for number in sorted(accounts):
            attempt = _read(plan, results, start, number, accounts[number].get("sha256"), found)
            if attempt is not None:
                record, runs = attempt
                yield ElasticAttempt(start, results.attempt(start.id, number), record, runs, number == last)


def _read(
    plan: ElasticPlan, results: Results, start: ElasticStart, number: int, told: str | None, found: list[Violation]
) -> tuple[ElasticStartFile, dict[str, Loaded]] | None:
    folder = results.attempt(start.id, number)
    file = (folder / "start.json").relative_to(results.root).as_posix()
    try:
        record = read_elastic_start(folder / "start.json", file)
    except CampaignError as error:
        found.extend(unreadable(error, file))
        return None
    wrong = list(_inconsistent(plan, start, number, record, file))
    if sha256_file(folder / "start.json") != told:
        wrong.append(refusal("start_altered", file, "", "another digest than its outcome says", str(told)))
    for name, digest in record.files.items():
        path = folder / name
        if not path.is_file() or sha256_file(path) != digest:
            wrong.append(refusal("file_altered", f"{file}: files", name, "another digest or no file", digest))
    found.extend(wrong)
    if wrong:
        return None
    try:
        return record, read_runs(folder)
    except CampaignError as error:
        found.extend(unreadable(error, file))
        return None


def _inconsistent(
    plan: ElasticPlan, start: ElasticStart, number: int, record: ElasticStartFile, file: str
) -> Iterator[Violation]:
    expected = {
        "campaign": plan.name,
        "plan_digest": plan.digest,
        "start": start.id,
        "attempt": number,
        **{name: getattr(start, name) for name in ("position", "round", "width", "state", "arm", "order_position")},
    }
    for field, value in expected.items():
        if getattr(record, field) != value:
            yield refusal("start_not_planned", file, field, str(getattr(record, field)), str(value))
