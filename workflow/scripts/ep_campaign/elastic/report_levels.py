"""Sections on what each width took: verdicts, the table of cells, equal accelerators, the published figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ep_campaign.numbers import MISSING, change_text, plural, ratio_text, significant
from ep_campaign.report.document import Bullets, Figure, Paragraph, Rank, Section, Strong, Table

if TYPE_CHECKING:
    from ep_campaign.elastic.plan import ElasticPlan
    from ep_campaign.elastic.published import PublishedLevel, PublishedResize, Study
    from ep_campaign.report.document import Text

METRIC_WORDS = {
    "ttft_p50_ms": "TTFT p50",
    "ttft_p95_ms": "TTFT p95",
    "tpot_p50_ms": "TPOT p50",
    "itl_p50_ms": "ITL p50",
    "itl_p99_ms": "ITL p99",
    "e2e_p50_ms": "E2E p50",
    "ms_per_output_token": "time per output token of the whole cell",
    "output_tokens_per_s": "output tokens/s",
    "output_tokens_per_s_per_gpu": "output tokens/s per GPU",
}
_CELLS_HEAD = (
    *("cell", "state", "arm", "GPUs", "slots", "ok", "TTFT p50", "TTFT p95"),
    *("TPOT p50", "ITL p50", "ITL p99", "tok/s", "tok/s/GPU", "notes"),
)
_PUBLISHED_HEAD = (
    *("concurrency", "width", "suite", "TTFT p50", "TTFT p95", "TPOT p50", "ITL p50", "ITL p99", "tok/s"),
    *("ours: TTFT p50", "ours: ITL p50", "ours: tok/s"),
)
_FAR = 0.05
_LESS_IS_BETTER = ("ttft_p50_ms", "ttft_p95_ms", "tpot_p50_ms", "itl_p50_ms", "itl_p99_ms", "e2e_p50_ms")
_MORE_IS_BETTER = ("output_tokens_per_s", "output_tokens_per_s_per_gpu")


def answer(plan: ElasticPlan, statistics: dict[str, Any]) -> Section:
    """What may be said, and what got better and worse where nothing may be decided."""
    family = plan.document["family"]
    decided = [one for one in statistics["contrasts"] if one["verdict"] in ("faster", "slower")]
    blocks: list[Any] = [Paragraph(plan.document["description"])]
    if family["min_rounds"] is not None:
        text = (
            f"The declared family has {plural(family['num_contrasts'], 'contrast')} over "
            f"{plural(plan.document['rounds'], 'round')}; "
            f"a verdict needs at least {family['min_rounds']}. "
        )
        blocks.append(Paragraph((text, Strong(f"{len(decided)} of them are decided."))))
    if decided:
        blocks.append(_verdicts(decided))
    for arm in plan.arms:
        for state in plan.sweeps:
            if state != plan.document["reference_state"]:
                blocks += _changes(plan, statistics, arm, state)
    return Section("answer", "What the width bought and cost", Rank.ANSWER, tuple(blocks))


def _verdicts(decided: list[dict[str, Any]]) -> Table:
    head = ("cell", "figure", "compared", "with", "within", "ratio", "interval", "verdict")
    rows = [
        (
            one["cell"],
            METRIC_WORDS[one["metric"]],
            one["subject"],
            one["reference"],
            one["within"],
            ratio_text(one["ratio"]),
            f"{ratio_text(one['lo'])} to {ratio_text(one['hi'])}",
            ", ".join([one["verdict"], *one["qualifiers"]]),
        )
        for one in decided
    ]
    return Table("Decided contrasts (below 1 is faster)", head, tuple(rows), frozenset({"ratio"}))


def _changes(plan: ElasticPlan, statistics: dict[str, Any], arm: str, state: str) -> list[Any]:
    """Medians over rounds against the reference state, as a description: a row for each cell."""
    reference = plan.document["reference_state"]
    rows: list[tuple[Text, ...]] = []
    for cell in plan.cells:
        ours, theirs = (find(statistics, arm, name, cell) for name in (state, reference))
        changes = [
            (metric, theirs["metrics"][metric]["median"], ours["metrics"][metric]["median"])
            for metric in (*_LESS_IS_BETTER, *_MORE_IS_BETTER)
        ]
        seen = [(metric, old, new) for metric, old, new in changes if old and new and abs(new / old - 1) >= _FAR]
        better = [one for one in seen if (one[2] < one[1]) == (one[0] in _LESS_IS_BETTER)]
        worse = [one for one in seen if one not in better]
        rows.append((cell, _listed(better), _listed(worse), _caution(ours, theirs)))
    gpus = f"{plan.num_gpus(state)} GPUs against {plan.num_gpus(reference)}"
    caption = f"{arm}: {state} against {reference}, {gpus}: medians over passes, changes of {100 * _FAR:.0f} % and more; no verdict"
    return [Table(caption, ("cell", "better", "worse", "caution"), tuple(rows))]


def _listed(changes: list[tuple[str, float, float]]) -> str:
    texts = [
        f"{METRIC_WORDS[metric]} {change_text(new / old)} % ({significant(old, 3)} to {significant(new, 3)})"
        for metric, old, new in changes
    ]
    return "; ".join(texts) or "nothing"


def _caution(ours: dict[str, Any], theirs: dict[str, Any]) -> str:
    found = []
    if not ours["num_passes"] or not theirs["num_passes"]:
        found.append("not measured on both sides")
    if ours["queue_bound"] != theirs["queue_bound"]:
        found.append("admission slots differ: TTFT is queueing and not communication alone")
    late = [one["num_passes"] - one["num_valid"] for one in (ours, theirs)]
    if any(late):
        found.append(f"client late in {late[0]} and {late[1]} passes")
    return "; ".join(found) or MISSING


def find(statistics: dict[str, Any], arm: str, state: str, cell: str) -> dict[str, Any]:
    """The level of one arm, state and cell."""
    return next(one for one in statistics["levels"] if (one["arm"], one["state"], one["cell"]) == (arm, state, cell))


def cells(plan: ElasticPlan, statistics: dict[str, Any]) -> Section:
    """Every cell with its n, its slots and its figures."""
    rows = [_row(one) for one in statistics["levels"]]
    blocks: list[Any] = [
        Paragraph(
            "Medians over passes, times in ms. TTFT begins at the client's send and ends at the first content; TPOT is a request's "
            "time per token after the first; ITL is the gap between two chunks with content, pooled over requests. Tokens are the "
            "server's own count, over the cell's wall time. p95 needs 20 values a pass and p99 100; below that there is none. "
            "Square brackets: bootstrap over whole requests, 95 %, spread within the passes that were made and not between them."
        ),
        Table("Cells", _CELLS_HEAD, tuple(rows), frozenset({*_CELLS_HEAD[3:5], *_CELLS_HEAD[6:13]})),
        Figure("sweep", "Closed loops by width", "Less is better on the left and in the middle, more on the right."),
        _shapes(statistics),
    ]
    return Section("cells", "Every cell", Rank.EVIDENCE, tuple(blocks))


def _row(one: dict[str, Any]) -> tuple[Text, ...]:
    metrics = one["metrics"]
    notes = []
    if one["queue_bound"]:
        notes.append("queue-bound: more in flight than slots")
    if one["waves"] is not None and one["waves"] < 3:
        notes.append(f"{one['waves']:.1f} waves: the start burst weighs")
    if one["num_valid"] < one["num_passes"]:
        notes.append(f"client late in {one['num_passes'] - one['num_valid']} of {one['num_passes']} passes")
    if not one["num_passes"]:
        notes.append("not measured")
    return (
        one["cell"],
        one["state"],
        one["arm"],
        str(one["num_gpus"]),
        str(one["num_slots"]),
        f"{one['num_ok']}/{one['num_requests']}",
        _with_spread(one, "ttft_p50_ms"),
        significant(metrics["ttft_p95_ms"]["median"]),
        significant(metrics["tpot_p50_ms"]["median"]),
        _with_spread(one, "itl_p50_ms"),
        _with_spread(one, "itl_p99_ms"),
        significant(metrics["output_tokens_per_s"]["median"]),
        significant(metrics["output_tokens_per_s_per_gpu"]["median"]),
        "; ".join(notes) or MISSING,
    )


def _with_spread(one: dict[str, Any], metric: str) -> str:
    value, spread = one["metrics"][metric]["median"], one["within"].get(metric)
    if value is None or spread is None:
        return significant(value)
    return f"{significant(value)} [{significant(spread['lo'], 3)}, {significant(spread['hi'], 3)}]"


def _shapes(statistics: dict[str, Any]) -> Table:
    head = ("cell", "state", "arm", "prompt tokens", "output tokens", "finish reasons by pass", "prefix-cache hits")
    rows = [
        (
            one["cell"],
            one["state"],
            one["arm"],
            _span(one["prompt_tokens"]),
            _span(one["completion_tokens"]),
            " / ".join(one["finish_reasons"]) or MISSING,
            "not said" if one["prefix_cache_hit_share"] is None else f"{100 * one['prefix_cache_hit_share']:.1f} %",
        )
        for one in statistics["levels"]
    ]
    return Table("What was asked and answered, as the server counts it", head, tuple(rows))


def _span(pair: list[int] | None) -> str:
    if pair is None:
        return MISSING
    return str(pair[0]) if pair[0] == pair[1] else f"{pair[0]} to {pair[1]}"


def equal_gpus(plan: ElasticPlan, statistics: dict[str, Any]) -> Section:
    """One wide deployment beside several narrow ones on as many accelerators."""
    by_gpus: dict[int, list[str]] = {}
    for state in plan.sweeps:
        by_gpus.setdefault(plan.num_gpus(state), []).append(state)
    groups = {gpus: states for gpus, states in by_gpus.items() if len(states) > 1}
    if not groups:
        text = (
            "No two sweeps hold equally many accelerators: nothing here says that wide is better than more deployments."
        )
        return Section("equal", "At equal accelerators", Rank.ANSWER, (Paragraph(text),))
    head = ("GPUs", "cell", "arm", "state", "deployments", "TTFT p50", "ITL p50", "tok/s")
    rows = []
    for gpus, states in sorted(groups.items()):
        for cell in plan.cells:
            for arm in plan.arms:
                for state in states:
                    one = find(statistics, arm, state, cell)
                    figures = [
                        one["metrics"][name]["median"] for name in ("ttft_p50_ms", "itl_p50_ms", "output_tokens_per_s")
                    ]
                    rows.append((str(gpus), cell, arm, state, str(one["deployments"]), *map(significant, figures)))
    text = "The same accelerators as one wide deployment, or as several narrow ones that share the requests in turns."
    table = Table(
        "Equal accelerators (ms, tokens/s)", head, tuple(rows), frozenset({"GPUs", "TTFT p50", "ITL p50", "tok/s"})
    )
    return Section("equal", "At equal accelerators", Rank.ANSWER, (Paragraph(text), table))


def published(plan: ElasticPlan, statistics: dict[str, Any], study: Study | None) -> Section:
    """The published figures, with ours beside them where the cell is the same."""
    if study is None:
        return Section("published", "Published figures", Rank.DETAIL, (Paragraph("The campaign names none."),))
    asked = plan.document["prompt"]
    same_prompt = (asked["num_units"], asked["max_tokens"]) == (study.prompt.prompt_tokens, study.prompt.max_tokens)
    same = same_prompt and plan.document["target"]["driver"] != "engine"
    rows = [(*_published_row(one, study), *_ours(statistics, one, same=same)) for one in study.levels]
    note = (
        "Ours stand beside them where width, concurrency, prompt and output are the same."
        if same
        else "No cell of this campaign is the same: another engine, model or prompt. They stand here for reference only."
    )
    caveat = "An asterisk marks cells with more requests in flight than admission slots."
    numbers = frozenset(_PUBLISHED_HEAD) - {"suite"}
    blocks: tuple[Any, ...] = (
        Paragraph(study.source),
        Paragraph(note),
        Bullets((caveat, *study.caveats)),
        Table("Published figures (ms, tokens/s)", _PUBLISHED_HEAD, tuple(rows), numbers),
        _published_resizes(study),
        Bullets(tuple(f"{one.completion_lines} completion lines {one.when}: {one.made_of}." for one in study.ledger)),
        Bullets(tuple(f"{name}: {value}" for name, value in sorted(study.environment.items()))),
    )
    return Section("published", "Published figures", Rank.DETAIL, blocks)


def _published_resizes(study: Study) -> Table:
    head = ("suite", "run", "load ok", "load s", "health 503", "pods s", "Ray s", "roles s", "note")
    rows = [
        (
            one.arm,
            one.run,
            f"{one.num_ok}/{one.num_requests}",
            f"{one.load_s:,.3f}",
            MISSING if one.num_health_503 is None else str(one.num_health_503),
            *(MISSING if value is None else f"{value:g}" for value in _marks(one)),
            one.note,
        )
        for one in study.resizes
    ]
    return Table("Published resizes, 2 to 4", head, tuple(rows), frozenset({"load s"}))


def _marks(one: PublishedResize) -> tuple[float | None, ...]:
    return one.pods_created_s, one.ray_registered_s, one.role_ready_s


def _published_row(one: PublishedLevel, study: Study) -> tuple[str, ...]:
    mark = "*" if study.is_queue_bound(one) else ""
    figures = (
        one.ttft_p50_ms,
        one.ttft_p95_ms,
        one.tpot_p50_ms,
        one.itl_p50_ms,
        one.itl_p99_ms,
        one.output_tokens_per_s,
    )
    return (
        f"{one.concurrency}{mark}",
        str(one.width),
        one.arm,
        *(MISSING if v is None else f"{v:,.3f}" for v in figures),
    )


def _ours(statistics: dict[str, Any], one: PublishedLevel, *, same: bool) -> tuple[str, ...]:
    if same:
        for level in statistics["levels"]:
            where = (level["arm"], level["width"], level["concurrency"], level["deployments"])
            if where == (one.arm, one.width, one.concurrency, 1) and level["num_passes"]:
                names = ("ttft_p50_ms", "itl_p50_ms", "output_tokens_per_s")
                return tuple(significant(level["metrics"][name]["median"]) for name in names)
    return (MISSING, MISSING, MISSING)
