"""Is a results folder sealed as it lies there? What a run asks before it prints a verdict."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ep_campaign.errors import CampaignError, Refusal, refuse
from ep_campaign.jsonfile import read_object
from ep_campaign.validate.report import REFUSED_NAME
from ep_campaign.validate.sealed import checksum_lines
from ep_worker.contract.canonical import sha256_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ep_campaign.layout import Results

MAX_SHOWN = 5


def check_seal(results: Results) -> None:
    """Refuses a folder that is refused, not sealed, or altered since.

    Raises:
        CampaignError: `folder_refused`, `not_sealed`, or `altered_file` for each file that differs.
    """
    remedy = f"make summary CAMPAIGN={results.root.name}"
    if (results.root / REFUSED_NAME).exists():
        message = f"validation refused this folder: read {REFUSED_NAME}, mend what it names, then {remedy}"
        raise refuse("folder_refused", message, str(results.root))
    marks = [mark for mark in (results.complete, results.partial) if mark.exists()]
    if len(marks) != 1 or not results.checksums.exists():
        there = ", ".join(path.name for path in (results.checksums, *marks) if path.exists()) or "nothing"
        message = f"found {there}, expected {results.checksums.name} and one of CAMPAIGN_COMPLETE, PARTIAL: {remedy}"
        raise refuse("not_sealed", message, str(results.root))
    sealed = read_object(marks[0], marks[0].name).get("sha256sums_sha256")
    if sealed != sha256_file(results.checksums):
        message = f"is not the file that {marks[0].name} seals: restore it, or {remedy}"
        raise refuse("altered_file", message, results.checksums.name)
    refusals = list(_altered(results, remedy))
    if refusals:
        raise CampaignError(refusals[:MAX_SHOWN])


def _altered(results: Results, remedy: str) -> Iterator[Refusal]:
    for name, digest in checksum_lines(results).items():
        path = results.root / os.fsdecode(name)
        if not path.is_file():
            yield Refusal("altered_file", f"is gone since the folder was sealed: restore it, or {remedy}", str(path))
        elif (found := sha256_file(path)) != digest:
            message = f"found SHA-256 {found[:16]}, sealed with {digest[:16]}: restore it, or {remedy}"
            yield Refusal("altered_file", message, str(path))
