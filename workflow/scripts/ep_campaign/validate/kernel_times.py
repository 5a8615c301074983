"""Are the kernel times there that the plan asks for, unaltered, and what their launches measured?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ep_campaign.errors import CampaignError
from ep_campaign.jsonfile import read_object
from ep_campaign.kernel_times import PROFILE_FOLDERS, rows_of
from ep_campaign.validate.finding import missing, note, refusal, unreadable
from ep_campaign.validate.folder import check_named
from ep_worker.contract.spec import PROFILE
from ep_worker.contract.terms import Status

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ep_campaign.layout import Results
    from ep_campaign.plan import Plan
    from ep_campaign.validate.finding import Violation

_RESUME = "run the campaign again: the same command profiles what is missing"


def check_kernel_times(plan: Plan, results: Results) -> Iterator[Violation]:
    """For each EP size of a plan that asks for them; nothing for any other plan."""
    for size in plan.document["ep_sizes"] if plan.document.get("kernel_times") else ():
        path = results.kernel_times(size["ranks"])
        file = path.relative_to(results.root).as_posix()
        if not path.exists():
            yield missing("no_kernel_times", file, "", "no file", "kernel times of this EP size", _RESUME)
            continue
        try:
            yield from _check_record(plan, results, path, file)
        except CampaignError as error:
            yield from unreadable(error, file)


def _check_record(plan: Plan, results: Results, path: Path, file: str) -> Iterator[Violation]:
    record = read_object(path, file)
    if record.get("plan_digest") != plan.digest:
        yield refusal("plan_digest_differs", file, "plan_digest", str(record.get("plan_digest")), plan.digest)
    launches = {}
    for start_path in sorted(path.with_suffix("").glob(PROFILE_FOLDERS), key=_by_attempt):
        name = start_path.relative_to(results.root).as_posix()
        launch = read_object(start_path, name)
        if launch.get("kind") != PROFILE:
            yield refusal("identity_differs", name, "kind", str(launch.get("kind")), PROFILE)
            continue
        yield from check_named(start_path.parent, name.rpartition("/")[0], launch["files"])
        launches[(launch["profile"], launch["arm"])] = launch  # sorted: the last attempt is the one that counts
    wanted = [row for launch in launches.values() for row in rows_of(launch)]
    yield from _check_rows(record.get("rows"), wanted, file)


def _by_attempt(path: Path) -> tuple[Path, int]:
    return path.parents[1], int(path.parent.name.rpartition("-")[2])


def _check_rows(rows: Any, wanted: list[dict[str, Any]], file: str) -> Iterator[Violation]:
    def by_key(row: dict[str, Any]) -> tuple[str, str]:
        return row["cell"], row["arm"]

    if not isinstance(rows, list) or sorted(rows, key=by_key) != sorted(wanted, key=by_key):
        yield refusal("kernel_times_differ", file, "rows", "other rows", "those of the launches beside it")
        return
    for row in rows:
        if row["status"] not in (Status.OK.value, Status.UNSUPPORTED.value):
            action = "its kernel times are missing from the report; the launch beside the file says more"
            found, field = row["reason"], f"rows[{row['cell']} {row['arm']}]"
            yield note(row["reason_code"], file, field, found, "kernels of declared groups, measured", action)
