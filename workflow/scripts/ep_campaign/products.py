"""What each stage wrote: digests by which a later stage tells a product from an edited or truncated file.

A plain run trusts dates. A product that was edited is newer than what comes after it, so it would be summarised on and sealed.
Each stage therefore leaves `products/<stage>.json`, and the stages after it refuse what differs.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from ep_campaign.errors import CampaignError, Refusal
from ep_campaign.jsonfile import read_object
from ep_worker.contract.canonical import pretty_json, sha256_file, write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from ep_campaign.layout import Results

PRODUCTS_SCHEMA = "ep-campaign/products/1"


class Stage(StrEnum):
    """The stages of a summary that write products."""

    VALIDATE = "validate"
    AGGREGATE = "aggregate"
    ANALYSE = "analyse"
    PLOTS = "plots"
    REPORT = "report"


ALWAYS = {
    Stage.VALIDATE: ("validation.json",),
    Stage.AGGREGATE: ("tables/attempts.parquet", "tables/records.parquet", "tables/samples.parquet"),
    Stage.ANALYSE: ("statistics.json", "tables/cells.parquet", "tables/contrasts.parquet"),
    Stage.PLOTS: (),
    Stage.REPORT: ("RESULTS.md", "pr.md", "report.html"),
}
"""What a stage of a comparison writes whatever the plan is; figures depend on it."""


def record_products(results: Results, stage: Stage, paths: Iterable[Path]) -> None:
    """Writes the digests of what a stage has just written.

    Raises:
        OSError: The disk is full.
    """
    digests = {path.relative_to(results.root).as_posix(): sha256_file(path) for path in paths}
    value = {"schema": PRODUCTS_SCHEMA, "stage": stage.value, "products": digests}
    results.products(stage.value).parent.mkdir(exist_ok=True)
    write_atomically(results.products(stage.value), pretty_json(value))


def check_products(results: Results, *stages: Stage, always: Mapping[Stage, tuple[str, ...]] = ALWAYS) -> None:
    """Refuses products that are not what their stages wrote.

    Args:
        results: Folder.
        stages: Whose products are checked.
        always: What each stage of this kind of campaign writes whatever the plan is.

    Raises:
        CampaignError: `missing_product` or `edited_product`, once for each file.
    """
    refusals = [refusal for stage in stages for refusal in wrong_products(results, stage, always)]
    if refusals:
        raise CampaignError(refusals)


def wrong_products(
    results: Results, stage: Stage, always: Mapping[Stage, tuple[str, ...]] = ALWAYS
) -> Iterator[Refusal]:
    """What differs from what a stage wrote."""
    remedy = f"write it anew: make summary CAMPAIGN={results.root.name}"
    file = results.products(stage.value)
    where = file.relative_to(results.root).as_posix()
    try:
        value = read_object(file, where)
    except CampaignError as error:
        yield from (Refusal("missing_product", f"{item.message}; {remedy}", where) for item in error.refusals)
        return
    digests = value.get("products")
    if value.get("schema") != PRODUCTS_SCHEMA or value.get("stage") != stage.value or not isinstance(digests, dict):
        yield Refusal("edited_product", f"is not what stage {stage.value} wrote; {remedy}", where)
        return
    for name in always[stage]:
        if name not in digests:
            yield Refusal("edited_product", f"does not name {name}, which stage {stage.value} writes; {remedy}", where)
    for name, digest in digests.items():
        path = results.root / name
        if not path.is_file():
            yield Refusal("missing_product", f"is missing, stage {stage.value} wrote it; {remedy}", name)
        elif (found := sha256_file(path)) != digest:
            message = (
                f"found SHA-256 {found[:16]}, expected {str(digest)[:16]}, as stage {stage.value} wrote it; {remedy}"
            )
            yield Refusal("edited_product", message, name)
