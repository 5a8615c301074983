"""One attempt at an elastic start: bring the target up, measure, write down what was seen, prove it gone."""

from __future__ import annotations

import itertools
import json
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ep_campaign.attempt import controller, utc_now
from ep_campaign.drivers.convergence import Verdict
from ep_campaign.drivers.follow import follow
from ep_campaign.elastic.resize import patience, resize_under_load
from ep_campaign.elastic.sweep import sweep
from ep_campaign.elastic.target import make_driver
from ep_campaign.elastic.transport import transport_fault
from ep_campaign.errors import CampaignError
from ep_campaign.journal import append_begin, append_end
from ep_worker.contract.canonical import pretty_json, sha256_file, write_atomically

if TYPE_CHECKING:
    from pathlib import Path

    from ep_campaign.drivers.driver import Driver, Endpoint, Released
    from ep_campaign.drivers.follow import Followed
    from ep_campaign.elastic.plan import ElasticPlan, ElasticStart
    from ep_campaign.layout import Results

ELASTIC_START_SCHEMA = "ep-campaign/elastic-start/1"
INFRASTRUCTURE = ("engine_not_started", "deployment_not_ready", "load_failed", "interrupted")
"""Reason codes of failures that say nothing about the width: retried in the slot."""

_READ_ONLY = 0o444


def run_elastic_attempt(plan: ElasticPlan, results: Results, start: ElasticStart, attempt: int) -> dict[str, Any]:
    """Runs one attempt and writes its record, also of a failure.

    Raises:
        CampaignError: The record cannot be written.
    """
    folder = results.attempt(start.id, attempt)
    folder.mkdir(parents=True)
    began_utc, began = utc_now(), time.monotonic()
    entry = {"kind": "scored", "start": start.id, "attempt": attempt, "at_utc": began_utc}
    sequence = append_begin(results, entry)
    measured = _Attempt(plan, start, folder).run()
    clock = {"began_utc": began_utc, "ended_utc": utc_now(), "seconds": round(time.monotonic() - began, 3)}
    record = _record(
        plan, start, attempt, {**measured, "clock": clock, "sequence": sequence, "controller": controller()}
    )
    write_record(folder, record)
    append_end(results, start.id, attempt, record["clock"]["seconds"])
    return record


def write_record(folder: Path, record: dict[str, Any]) -> None:
    """Writes `start.json` with the digests of its siblings, and makes everything read-only."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "start.json")
    record["files"] = {path.relative_to(folder).as_posix(): sha256_file(path) for path in files}
    for path in files:
        path.chmod(_READ_ONLY)
    write_atomically(folder / "start.json", pretty_json(record), mode=_READ_ONLY)


def unrun_record(plan: ElasticPlan, start: ElasticStart, attempt: int, reason: str) -> dict[str, Any]:
    """The record of an attempt whose controller died before it could write one."""
    return _record(plan, start, attempt, {**_blank(), **_failed("crashed", "interrupted", reason)})


class _Attempt:
    """What one attempt has brought up so far."""

    def __init__(self, plan: ElasticPlan, start: ElasticStart, folder: Path) -> None:
        self._plan, self._start, self._folder = plan, start, folder
        self._state = plan.state(start.state)
        self._transport: str = plan.document["arms"][start.arm]["transport"]
        self._drivers: list[Driver] = []
        self._found = _blank()

    def run(self) -> dict[str, Any]:
        """Everything that the record says of what happened."""
        try:
            endpoints = self._bring_up()
            self._measure(endpoints)
        except CampaignError as error:
            first = error.refusals[0]
            self._found |= _failed("crashed", first.code, str(error))
        finally:
            released = [driver.stop() for driver in self._drivers]
            self._found["released"] = [asdict(one) for one in released]
            self._found["teardown"] = _teardown(released)
        return self._found

    def _bring_up(self) -> list[Endpoint]:
        """Deployments at the width that is measured first; a sweep's earlier widths are passed through without load."""
        widths = self._state["widths"]
        endpoints = []
        for index in range(self._state["deployments"]):
            driver = make_driver(self._plan, self._start.arm, self._folder / f"engine-{index}")
            self._drivers.append(driver)
            endpoints.append(driver.start(widths[0]))
            self._found["server_log_before"].append(driver.server_log())
        if self._state["kind"] == "sweep":
            for old, new in itertools.pairwise(widths):
                for driver, endpoint in zip(self._drivers, endpoints, strict=True):
                    self._note_resize(follow(driver, endpoint, old, new, patience(self._plan)))
        return endpoints

    def _measure(self, endpoints: list[Endpoint]) -> None:
        reached = all(one["verdict"] == Verdict.CONVERGED.value for one in self._found["resizes"])
        if self._state["kind"] == "sweep":
            if not reached:
                last = self._found["resizes"][-1]
                self._found |= _failed("crashed", "width_not_reached", f"{last['verdict']}: {last['reason']}")
                return
            self._found |= sweep(self._plan, endpoints, self._folder)
        else:
            for one in resize_under_load(
                self._plan, self._drivers[0], endpoints[0], self._state["widths"], self._folder
            ):
                self._note_resize(one)
            self._judge_resizes()
        self._found["provenance"] = [driver.provenance() for driver in self._drivers]
        self._found["server_log"] = [driver.server_log() for driver in self._drivers]
        self._check_transport()

    def _note_resize(self, one: Followed) -> None:
        self._found["resizes"].append(one.as_json())

    def _check_transport(self) -> None:
        faults = [transport_fault(self._transport, one) for one in self._found["provenance"]]
        fault = next((one for one in faults if one is not None), None)
        if fault is not None and not self._found["reason_code"]:
            self._found |= _failed("inadmissible", "transport_unproved", fault)

    def _judge_resizes(self) -> None:
        """A verdict is a result and not a failure; one that is not the declared one is said so."""
        last = self._found["resizes"][-1]
        if last["verdict"] == Verdict.TIMED_OUT.value:
            self._found |= _failed("timed_out", "resize_timed_out", last["reason"])
        elif last["verdict"] != self._state["expect"]:
            text = f"found {last['verdict']}, expected {self._state['expect']}: {last['reason']}"
            self._found |= _failed("incorrect", "unexpected_verdict", text)


def _blank() -> dict[str, Any]:
    return {
        "status": "ok",
        "reason_code": "",
        "reason": "",
        "calibration": None,
        "resizes": [],
        "provenance": [],
        "server_log_before": [],
        "server_log": [],
        "released": [],
        "teardown": "not_reached",
        "clock": None,
        "sequence": None,
        "controller": None,
    }


def _failed(status: str, code: str, reason: str) -> dict[str, str]:
    return {"status": status, "reason_code": code, "reason": reason}


def _teardown(released: list[Released]) -> str:
    if not released:
        return "not_reached"
    return "ok" if all(one.proved for one in released) else "failed"


def _record(plan: ElasticPlan, start: ElasticStart, attempt: int, measured: dict[str, Any]) -> dict[str, Any]:
    record = {
        "schema": ELASTIC_START_SCHEMA,
        "kind": "scored",
        "campaign": plan.name,
        "plan_digest": plan.digest,
        "start": start.id,
        "attempt": attempt,
        "infrastructure": measured["reason_code"] in INFRASTRUCTURE,
        **{name: getattr(start, name) for name in ("position", "round", "width", "state", "arm", "order_position")},
        **measured,
    }
    return dict(json.loads(json.dumps(record)))  # tuples become lists: what is returned is what is read back
