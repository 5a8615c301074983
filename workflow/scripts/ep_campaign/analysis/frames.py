"""The flat forms of levels and contrasts: rows of `tables/cells.parquet` and `tables/contrasts.parquet`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ep_worker.contract.accounting import CONVENTIONS
from ep_worker.contract.canonical import canonical_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import BaseModel

    from ep_campaign.summary import Contrast, Level, Ruling

_LEVEL_NESTED = {"interval_us", "logical_gb_per_s_per_rank", "missing", "phase_values_us", "printable", "resolved"}
_CONTRAST_NESTED = {"interval", "excluded", "ruling", "ruling_without_late", "printable"}


def cell_rows(levels: Sequence[Level]) -> list[dict[str, Any]]:
    """One row for each level, in their order."""
    return [_cell_row(level) for level in levels]


def contrast_rows(contrasts: Sequence[Contrast]) -> list[dict[str, Any]]:
    """One row for each contrast, in their order."""
    return [_contrast_row(contrast) for contrast in contrasts]


def _plain(part: BaseModel, nested: set[str]) -> dict[str, Any]:
    return part.model_dump(mode="json", exclude=nested)


def _cell_row(level: Level) -> dict[str, Any]:
    interval = level.interval_us
    return {
        **_plain(level, _LEVEL_NESTED),
        "num_starts": len(level.rounds),
        "median_lo_us": interval.lo if interval else None,
        "median_hi_us": interval.hi if interval else None,
        "median_level": interval.level if interval else None,
        **{f"{name}_gb_per_s_per_rank": level.logical_gb_per_s_per_rank.get(name) for name in CONVENTIONS},
        "resolved": [canonical_json(answer) for answer in level.resolved],
        "missing_rounds": [item.round for item in level.missing],
        "missing_statuses": [item.status.value if item.status else None for item in level.missing],
        "missing_reason_codes": [item.reason_code for item in level.missing],
    }


def _contrast_row(contrast: Contrast) -> dict[str, Any]:
    interval = contrast.interval
    return {
        **_plain(contrast, _CONTRAST_NESTED),
        "num_complete_rounds": len(contrast.rounds),
        "ratio_lo": interval.lo if interval else None,
        "ratio_hi": interval.hi if interval else None,
        "ratio_level": interval.level if interval else None,
        **_ruling(contrast.ruling, ""),
        **_ruling(contrast.ruling_without_late, "_without_late"),
        "excluded_rounds": [item.round for item in contrast.excluded],
        "excluded_arms": [item.arm for item in contrast.excluded],
        "excluded_statuses": [item.status.value if item.status else None for item in contrast.excluded],
        "excluded_reason_codes": [item.reason_code for item in contrast.excluded],
        "withheld": contrast.printable.sentence,
    }


def _ruling(ruling: Ruling | None, suffix: str) -> dict[str, Any]:
    return {
        f"verdict{suffix}": ruling.verdict.value if ruling else None,
        f"qualifiers{suffix}": [qualifier.value for qualifier in ruling.qualifiers] if ruling else [],
    }
