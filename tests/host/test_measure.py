"""Measuring again after an interruption: what cannot be read is set aside and its slot tried again, never a traceback."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from forge import read
from plans import make_plan
from synthetic import make_results

from ep_campaign.attempt import interrupted
from ep_campaign.errors import CampaignError
from ep_campaign.identity import accepted_workers
from ep_campaign.journal import append_begin, append_end, read_journal
from ep_campaign.measure import measure
from ep_worker.contract.canonical import pretty_json

if TYPE_CHECKING:
    from pathlib import Path

    from ep_campaign.layout import Results
    from ep_campaign.plan import Plan, Start


class _Nowhere:
    """A place where every launch is interrupted."""

    def launch(self, *_: Any) -> dict[str, Any]:
        return interrupted("planted")

    def resume(self, *_: Any) -> None:
        return None


@pytest.fixture
def left(tmp_path: Path) -> tuple[Plan, Results, Start]:
    """A start whose attempt is whole and whose outcome is gone, as a dead controller leaves it."""
    plan = make_plan(tmp_path)
    results = make_results(tmp_path / "results", plan)
    start = plan.starts[0]
    results.outcome(start.id, 1).unlink()
    entry = {"start": start.id, "attempt": 1, "round": 1, "kind": "scored", "ep_size": 2}
    append_begin(results, {**entry, "at_utc": "2026-01-01T00:00:00Z"})
    return plan, results, start


def _measured(left: tuple[Plan, Results, Start]) -> dict[str, Any]:
    plan, results, start = left
    outcome = measure(plan, results, start, 1, _Nowhere())  # type: ignore[arg-type]
    assert read(results.outcome(start.id, 1)) == outcome
    return outcome


def _names(left: tuple[Plan, Results, Start]) -> list[str]:
    _, results, start = left
    return sorted(path.name for path in results.start(start.id).iterdir())


def test_a_whole_attempt_is_harvested(left: tuple[Plan, Results, Start]) -> None:
    """Its record stands, and nothing runs."""
    assert _measured(left)["status"] == "ok"
    assert _names(left) == ["attempt-1", "outcome-1.json"]


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "{}", "\udcff"])
def test_a_record_that_cannot_be_read_is_set_aside(left: tuple[Plan, Results, Start], text: str) -> None:
    """Cut short, nested without end, of no version, no text: the slot is tried again, twice with its retry."""
    _, results, start = left
    path = results.attempt(start.id, 1) / "start.json"
    path.chmod(0o644)
    path.write_bytes(text.encode("ascii", "surrogateescape"))
    outcome = _measured(left)
    assert [(row["attempt"], row["reason_code"]) for row in outcome["attempts"]] == [
        (1, "interrupted"),
        (2, "interrupted"),
    ]
    assert _names(left) == ["attempt-1", "attempt-1.unreadable", "attempt-2", "outcome-1.json"]


@pytest.mark.parametrize("line", ["garbage", "1", "[]", '{"event": 1}', '{"event": "workload"}', "[" * 100_000])
def test_a_rank_file_that_cannot_be_read_is_set_aside(left: tuple[Plan, Results, Start], line: str) -> None:
    """A line that no rank wrote, in an attempt without a record."""
    _, results, start = left
    folder = results.attempt(start.id, 1)
    (folder / "start.json").unlink()
    path = folder / "rank-0.jsonl"
    path.chmod(0o644)
    path.write_text(f"{line}\n{line}\n")
    assert _measured(left)["attempts"][0]["reason_code"] == "interrupted"
    assert (results.attempt(start.id, 1) / "start.json").exists()


def test_attempts_that_never_began_are_set_aside_each_under_its_name(left: tuple[Plan, Results, Start]) -> None:
    """The name of a folder that was set aside before is not taken again."""
    _, results, start = left
    results.journal.unlink()
    folder = results.attempt(start.id, 1)
    (folder / "start.json").unlink()
    taken = folder.with_name("attempt-1.never-begun")
    taken.mkdir()
    (taken / "spec.json").write_text("{}")
    _measured(left)
    assert {"attempt-1.never-begun", "attempt-1.never-begun-2"} <= set(_names(left))


@pytest.mark.parametrize("line", [b"{garbage}\n", b"\xff\n", b"[1}\n", b'{"event": "end"}\n', b"[" * 100_000 + b"}\n"])
def test_the_journal_is_read_around_what_is_no_entry(left: tuple[Plan, Results, Start], line: bytes) -> None:
    """Whole lines count, and further ones can be added."""
    _, results, _ = left
    before = read_journal(results)
    with results.journal.open("ab") as stream:
        stream.write(line)
    assert read_journal(results) == before
    append_end(results, "x", 1, 1.0)
    assert len(read_journal(results)) == len(before) + 1


@pytest.mark.parametrize("arms", [{}, [], {"torch-a2a": 1}, None])
def test_an_admission_without_the_arm_is_refused(left: tuple[Plan, Results, Start], arms: Any) -> None:
    """With what to do, where a start would run."""
    plan, results, _ = left
    start = next(item for item in plan.starts if item.arm == "torch-a2a")
    results.outcome(start.id, 1).unlink(missing_ok=True)
    results.attempt(start.id, 1).rename(results.root / "elsewhere")
    results.admission(2).write_text(pretty_json({"arms": arms}))
    with pytest.raises(CampaignError) as refused:
        measure(plan, results, start, 1, _Nowhere())  # type: ignore[arg-type]
    assert refused.value.codes == ("bad_admission",)


@pytest.mark.parametrize("attempts", [[1], ["x"], {"a": 1}, [{"attempt": "1"}], [{}]])
def test_an_odd_outcome_counts_as_a_failed_job(left: tuple[Plan, Results, Start], attempts: Any) -> None:
    """Its start is tried again."""
    _, results, start = left
    results.outcome(start.id, 1).write_text(
        pretty_json({"schema": "ep-campaign/outcome/1", "status": "crashed", "attempts": attempts})
    )
    assert results.target(start.id) == 2


def test_a_bottomless_worker_file_is_refused(left: tuple[Plan, Results, Start]) -> None:
    """Nested without end: refused in a line."""
    _, results, _ = left
    results.worker.write_text("[" * 100_000)
    with pytest.raises(CampaignError) as refused:
        accepted_workers(results)
    assert refused.value.codes == ("bad_worker_file",)
