"""What the plans of all kinds of campaign are: one JSON document and its digest.

Standard library and contract only: the job that runs a start imports this module and must cost milliseconds.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ep_campaign.errors import refuse
from ep_worker.contract.canonical import canonical_json, pretty_json, sha256_text

if TYPE_CHECKING:
    from pathlib import Path

PLAN_SCHEMA = "ep-campaign/plan/1"


@dataclass(frozen=True)
class PlanDocument:
    """A resolved campaign.

    Attributes:
        document: What `plan.json` holds. No host, path, git state or worker digest is in it.
    """

    document: dict[str, Any]

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the document's canonical JSON."""
        return sha256_text(canonical_json(self.document))

    @property
    def name(self) -> str:
        """Name of the campaign."""
        return str(self.document["campaign"])

    @property
    def kind(self) -> str:
        """What kind of question it asks."""
        return str(self.document["kind"])

    @property
    def start_ids(self) -> list[str]:
        """Every start, in order."""
        return [str(start["id"]) for start in self.document["starts"]]

    def text(self) -> str:
        """The text of `plan.json`."""
        return pretty_json({**self.document, "digest": self.digest})


def read_document(path: Path) -> dict[str, Any]:
    """The document of a results folder's plan.

    Raises:
        CampaignError: The file is not a plan of this version, or was altered after it was written.
    """
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="ascii"))
        digest, schema = str(document.pop("digest")), document["schema"]
        found = PlanDocument(document).digest  # a NaN in it has no canonical form
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise refuse(
            "bad_plan", f"is not a plan ({type(error).__name__}: {error}); expected the file that plan wrote", str(path)
        ) from None
    if schema != PLAN_SCHEMA:
        raise refuse("plan_schema", f"has schema {schema!r}, this version reads {PLAN_SCHEMA!r}", str(path))
    if found != digest:
        message = f"digest is {found[:16]}, the file says {digest[:16]}: it was altered after it was written"
        raise refuse("plan_altered", message, str(path))
    return document
