"""Where the numbers come from: every provenance field as observed, images, workers, commits, environment."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ep_campaign.numbers import listing, plural
from ep_campaign.report.document import Bullets, Paragraph, Quoted, Rank, Section, Table, Text
from ep_campaign.report.source import BY_RANK
from ep_campaign.report.values import value_text
from ep_worker.contract.provenance import FIELDS

if TYPE_CHECKING:
    from ep_campaign.report.document import Block, Piece
    from ep_campaign.report.source import Source
    from ep_campaign.summary import Observed

_LISTED = 4
_ENVIRONMENT = "environment"
_NOT_SET = "(not set)"


def provenance_section(source: Source) -> Section:
    """Identity of code and images, then every field, then the environment."""
    observed = source.summary.observed
    if not observed:
        text = "No start has an ok record: nothing was observed."
        return Section("provenance", "Provenance", Rank.RECORD, (Paragraph(text), Bullets(_identity(source))))
    blocks: list[Block] = [Bullets(_identity(source)), Paragraph(_FIELDS_TEXT)]
    for ep_size in dict.fromkeys(item.ep_size for item in observed):
        here = [item for item in observed if item.ep_size == ep_size]
        blocks.append(_fields_table(source, ep_size, here))
        blocks += _environment_tables(source, ep_size, here)
    blocks.append(_resolved_table(source))
    return Section("provenance", "Provenance", Rank.RECORD, tuple(blocks))


_FIELDS_TEXT = (
    "Fields as the ranks observed them, not as anything was asked for. One value: every rank of every counting start agrees. Each "
    "start's own values stand in its record and in the attempts table."
)


def _identity(source: Source) -> tuple[Text, ...]:
    evidence, observed = source.evidence, source.summary.observed
    commits = sorted({commit for item in observed for commit in item.git_commits})
    dirty = sum(commit.endswith("+dirty") for commit in commits)
    items: list[Text] = [("Plan digest: ", Quoted(source.plan.digest), ".")]
    for worker in evidence.workers:
        accepted = () if worker["reason"] == "first" else (", accepted later because: ", Quoted(worker["reason"]))
        items.append(("Worker digest: ", Quoted(worker["worker_digest"]), *accepted, "."))
    if not evidence.workers:
        items.append("Worker digest: none recorded.")
    if source.summary.head.mixed_workers:
        items.append("Records come from more than one worker version: a mixed campaign.")
    if commits:
        state = "all clean" if not dirty else f"{plural(dirty, 'state')} with uncommitted changes"
        items.append(("Git commit of the controller's checkout: ", *_quoted(commits), f" ({state})."))
    else:
        items.append("Git commit: none recorded; the controller ran outside of a git checkout.")
    images = sorted({(item.arm, image) for item in observed for image in item.images})
    if images:
        items += [(f"Image of {arm}: ", Quoted(image), ".") for arm, image in images]
    else:
        items.append("Images: none; starts ran as local processes.")
    if evidence.began_utc:
        items.append(f"Measured from {evidence.began_utc} to {evidence.ended_utc} (controller's clock).")
    items += [f"Machines at EP {size}: {listing(names)}." for size, names in evidence.hosts.items() if names]
    return tuple(items)


def _quoted(texts: list[str]) -> list[Piece]:
    found: list[Piece] = []
    for text in texts:
        found += [", ", Quoted(text)] if found else [Quoted(text)]
    return found


def _fields_table(source: Source, ep_size: int, observed: list[Observed]) -> Table:
    rows: list[tuple[Text, ...]] = []
    for field in FIELDS:
        if field.name == _ENVIRONMENT:
            continue
        texts = {item.arm: field_text(source, item, field.name) for item in observed}
        distinct = dict.fromkeys(texts.values())
        if len(distinct) == 1:
            rows.append((field.name, "all", Quoted(next(iter(distinct)))))
        else:
            rows += [(field.name, arm, Quoted(text)) for arm, text in texts.items()]
    return Table(f"Observed at EP {ep_size}", ("field", "arm", "value"), tuple(rows))


def field_text(source: Source, observed: Observed, name: str) -> str:
    """A field of one arm: its one value, or the values that its starts and ranks saw."""
    if name in observed.same:
        return value_text(observed.same[name])
    found = source.evidence.varying.get((observed.ep_size, observed.arm, name), ())
    if not found:
        return "not recorded"
    if ranges := _ranges(found):
        return f"{ranges} over ranks and starts"
    listed = "; ".join(found[:_LISTED])
    more = f"; and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
    return f"{len(found)} distinct: {listed}{more}"


def _ranges(texts: tuple[str, ...]) -> str:
    """The range of a field over ranks and starts where it holds numbers, by key where it holds several; else nothing."""
    values: list[Any] = []
    for text in texts:
        value = json.loads(text.removeprefix(BY_RANK))
        values += value if text.startswith(BY_RANK) else [value]
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, dict) for value in known):
        keys = sorted({key for value in known for key in value})
        by_key = {key: _range([value.get(key) for value in known]) for key in keys}
        return "; ".join(f"{key} {text}" for key, text in by_key.items()) if all(by_key.values()) else ""
    return _range(known)


def _range(values: list[Any]) -> str:
    if not values or not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return ""
    low, high = (value_text(round(end, 3)) for end in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def _environment_tables(source: Source, ep_size: int, observed: list[Observed]) -> list[Block]:
    """Variables that differ between arms, with the declared reasons; then those that all arms share."""
    seen = {item.arm: _variables(source, item) for item in observed}
    names = sorted({name for variables in seen.values() for name in variables})
    values = {name: {arm: variables.get(name, _NOT_SET) for arm, variables in seen.items()} for name in names}
    differing = [name for name in names if len(set(values[name].values())) > 1]
    reasons = {arm.name: arm.environment_reasons for arm in source.summary.head.arms}
    rows = tuple(
        (name, arm, Quoted(value), reasons.get(arm, {}).get(name, "-"))
        for name in differing
        for arm, value in values[name].items()
    )
    head = ("variable", "arm", "value", "declared reason")
    blocks: list[Block] = [Table(f"Environment that differs between arms at EP {ep_size}", head, rows)]
    shared = tuple((name, Quoted(next(iter(values[name].values())))) for name in names if name not in differing)
    blocks.append(Table(f"Environment that all arms share at EP {ep_size}", ("variable", "value"), shared))
    return blocks


def _variables(source: Source, observed: Observed) -> dict[str, str]:
    """Variables of one arm; where starts or ranks differ, every value."""
    if _ENVIRONMENT in observed.same:
        value: Any = observed.same[_ENVIRONMENT]
        return {name: str(text) for name, text in value.items()}
    merged: dict[str, dict[str, None]] = {}
    for text in source.evidence.varying.get((observed.ep_size, observed.arm, _ENVIRONMENT), ()):
        ranks = json.loads(text.removeprefix(BY_RANK))
        for one in ranks if isinstance(ranks, list) else [ranks]:
            for name, setting in (one or {}).items():
                merged.setdefault(name, {})[str(setting)] = None
    return {name: " or ".join(found) for name, found in merged.items()}


def _resolved_table(source: Source) -> Table:
    """What backends made of their knobs, over every cell, boundary and mode; arms that agree share a row."""
    values: dict[tuple[str, str, str], dict[str, None]] = {}
    for level in source.summary.levels:
        for resolved in level.resolved:
            for name, value in sorted(resolved.items()):
                key = (f"EP {level.ep_size}, {level.profile}", name, level.arm)
                values.setdefault(key, {})[value_text(value)] = None
    arms: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for (where, name, arm), found in values.items():
        arms.setdefault((where, name, tuple(sorted(found))), []).append(arm)
    rows = tuple(
        (where, name, ", ".join(names), Quoted(" or ".join(found))) for (where, name, found), names in arms.items()
    )
    return Table("What backends made of their knobs", ("where", "knob", "arms", "resolved"), rows)
