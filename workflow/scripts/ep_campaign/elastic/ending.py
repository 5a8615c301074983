"""An elastic campaign in a terminal: its plan before it runs, and what it ends with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ep_campaign.elastic.analyse import read_elastic_statistics
from ep_campaign.elastic.plan import ElasticPlan, read_elastic_plan
from ep_campaign.numbers import plural, significant
from ep_campaign.text import table
from ep_campaign.validate import State

if TYPE_CHECKING:
    from ep_campaign.layout import Results


def elastic_preview(plan: ElasticPlan) -> str:
    """States, cells and what the declared rounds can decide."""
    document, family = plan.document, plan.document["family"]
    states = [
        (
            name,
            state["kind"],
            " to ".join(map(str, state["widths"])),
            str(state["deployments"]),
            str(plan.num_gpus(name)),
            str(plan.num_slots(name)),
            state["expect"],
        )
        for name, state in plan.states.items()
    ]
    cells = [
        (
            name,
            str(cell["concurrency"] or cell["rate_per_s"] or "trace"),
            str(cell["requests"]),
            str(cell["num_warmups"]),
        )
        for name, cell in plan.cells.items()
    ]
    enough = family["min_rounds"] is None or document["rounds"] >= family["min_rounds"]
    words = "which can decide it" if enough else f"which cannot: that needs {family['min_rounds']}"
    arms = [f"{name} (must prove {arm['transport']})" for name, arm in plan.arms.items()]
    parts = [
        f"{plan.name}: {plural(len(plan.starts), 'start')}, plan {plan.digest[:16]}",
        f"Arms: {', '.join(arms)}; reference {document['reference']}",
        f"Family: {plural(family['num_contrasts'], 'contrast')} over {plural(document['rounds'], 'round')}, {words}",
        table(("state", "kind", "widths", "deployments", "GPUs", "slots", "expects"), states),
        table(("cell", "concurrency or rate", "requests", "warm-ups"), cells),
    ]
    return "\n\n".join(parts) + "\n"


def elastic_ending(results: Results) -> tuple[str, State]:
    """The table of cells, the resizes in a line each, and where the report lies."""
    plan = read_elastic_plan(results.plan)
    statistics = read_elastic_statistics(plan, results)
    head = ("cell", "state", "arm", "GPUs", "ok", "TTFT p50 ms", "ITL p50 ms", "tok/s")
    names = ("ttft_p50_ms", "itl_p50_ms", "output_tokens_per_s")
    rows = [
        (
            one["cell"],
            one["state"],
            one["arm"],
            str(one["num_gpus"]),
            f"{one['num_ok']}/{one['num_requests']}",
            *(significant(one["metrics"][name]["median"]) for name in names),
        )
        for one in statistics["levels"]
    ]
    resizes = [
        f"{one['state']} {one['old_width']} to {one['new_width']} over {one['arm']}, round {one['round']}: {one['verdict']}"
        for one in statistics["resizes"]
        if one["under_load"]
    ]
    state = State(statistics["state"])
    census = statistics["census"]
    ending = f"{plan.name}: {state.value.upper()}, {census['num_ok_starts']} of {census['num_starts']} starts ok"
    parts = [table(head, rows), "\n".join(resizes), ending, f"Report: {results.root / 'RESULTS.md'}"]
    return "\n\n".join(part for part in parts if part) + "\n", state
