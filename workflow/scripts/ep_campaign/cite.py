"""How to cite a campaign: its identity, its seal, when and where it ran, and what has taken its place since.

What superseded a campaign stands in a ledger beside the results folders, for a sealed folder is never edited.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from ep_campaign.errors import refuse
from ep_campaign.jsonfile import as_model, read_object
from ep_campaign.numbers import listing
from ep_campaign.plan_document import PlanDocument, read_document
from ep_campaign.seal import check_seal
from ep_worker.contract.canonical import pretty_json, sha256_file, write_atomically

if TYPE_CHECKING:
    from pathlib import Path

    from ep_campaign.layout import Results

LEDGER = "SUPERSEDED.json"
LEDGER_SCHEMA = "ep-campaign/superseded/1"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Entry(_Strict):
    """One campaign that another one took the place of; both by plan digest."""

    campaign: str
    plan_digest: str
    by_campaign: str
    by_plan_digest: str
    reason: str = Field(min_length=1)


class Ledger(_Strict):
    """Everything that was superseded in one folder of results."""

    schema_version: str = Field(default=LEDGER_SCHEMA, alias="schema", pattern=f"^{LEDGER_SCHEMA}$")
    entries: tuple[Entry, ...] = ()


@dataclass(frozen=True)
class Citation:
    """What identifies a sealed campaign.

    Attributes:
        campaign: Name.
        kind: Kind.
        plan_digest: SHA-256 of its plan.
        seal_sha256: SHA-256 of its SHA256SUMS, which covers every file.
        state: `complete` or `partial`.
        description: What was asked.
        superseded_by: What took its place, and why; None where nothing did.
    """

    campaign: str
    kind: str
    plan_digest: str
    seal_sha256: str
    state: str
    description: str
    superseded_by: Entry | None

    def as_json(self) -> dict[str, Any]:
        """Plain JSON value."""
        by = None if self.superseded_by is None else self.superseded_by.model_dump()
        return {**asdict(self), "superseded_by": by}

    def text(self) -> str:
        """In a terminal."""
        lines = [
            f"{self.campaign} ({self.kind}, {self.state})",
            f"  plan    {self.plan_digest}",
            f"  seal    {self.seal_sha256}  SHA256SUMS",
            f"  asked   {self.description}",
        ]
        if self.superseded_by is not None:
            by = self.superseded_by
            lines.append(f"  SUPERSEDED by {by.by_campaign} ({by.by_plan_digest}): {by.reason}")
        return "\n".join(lines)


def cite(results: Results) -> Citation:
    """The citation of a sealed folder.

    Raises:
        CampaignError: The folder is not sealed, or altered since (see `seal.check_seal`); the ledger is none (`bad_ledger`).
    """
    check_seal(results)
    document = read_document(results.plan)
    digest = PlanDocument(document).digest
    return Citation(
        campaign=str(document["campaign"]),
        kind=str(document["kind"]),
        plan_digest=digest,
        seal_sha256=sha256_file(results.checksums),
        state="complete" if results.complete.exists() else "partial",
        description=" ".join(str(document["description"]).split()),
        superseded_by=successor(results),
    )


def successor(results: Results) -> Entry | None:
    """What took the place of a sealed folder, by the plan that its mark names; None where nothing did.

    Raises:
        CampaignError: The ledger is none (`bad_ledger`).
    """
    mark = results.complete if results.complete.exists() else results.partial
    digest = read_object(mark, mark.name).get("plan_digest")
    found = [entry for entry in read_ledger(results.root.parent).entries if entry.plan_digest == digest]
    return found[-1] if found else None


def read_ledger(folder: Path) -> Ledger:
    """The ledger of a folder of results; an empty one where there is none.

    Raises:
        CampaignError: It is no JSON object (see `jsonfile`), or no ledger (`bad_ledger`).
    """
    path = folder / LEDGER
    return as_model(Ledger, read_object(path, LEDGER), "bad_ledger", str(path)) if path.exists() else Ledger()


def supersede(results: Results, by: Results, reason: str) -> Entry:
    """Records that one sealed campaign took the place of another in the same folder of results.

    Raises:
        CampaignError: As `cite`, for either; they are one (`supersedes_itself`), lie apart (`ledger_elsewhere`), the reason is
            empty (`no_reason`), or what should take its place was itself superseded by it (`superseded_in_a_circle`).
    """
    if not reason.strip():
        raise refuse("no_reason", "is empty; say in one sentence what was wrong with it, or is better now", "--reason")
    if results.root.resolve().parent != by.root.resolve().parent:
        message = f"lies in {by.root.resolve().parent}, expected it beside {results.root.resolve()}: one ledger serves one folder"
        raise refuse("ledger_elsewhere", message, str(by.root))
    old, new = cite(results), cite(by)
    if old.plan_digest == new.plan_digest:
        raise refuse("supersedes_itself", f"both folders hold plan {old.plan_digest[:16]}", str(by.root))
    ledger = read_ledger(results.root.parent)
    successors = {entry.plan_digest: entry.by_plan_digest for entry in ledger.entries}
    seen, last = [new.plan_digest], successors.get(new.plan_digest)
    while last is not None and last not in seen:
        seen.append(last)
        last = successors.get(last)
    if old.plan_digest in seen:
        message = f"{new.campaign} was itself superseded, by way of {listing(item[:12] for item in seen[1:])}: by {old.campaign}"
        raise refuse("superseded_in_a_circle", message, str(by.root))
    entry = Entry(
        campaign=old.campaign,
        plan_digest=old.plan_digest,
        by_campaign=new.campaign,
        by_plan_digest=new.plan_digest,
        reason=reason.strip(),
    )
    kept = tuple(one for one in ledger.entries if one.plan_digest != old.plan_digest)
    written = Ledger(schema=LEDGER_SCHEMA, entries=(*kept, entry))
    write_atomically(results.root.parent / LEDGER, pretty_json(written.model_dump(mode="json", by_alias=True)))
    return entry
