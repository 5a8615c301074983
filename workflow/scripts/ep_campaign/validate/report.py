"""Where what validation found is written: one of two files, never both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ep_campaign.validate.finding import State, Validation
from ep_worker.contract.canonical import pretty_json, write_atomically

if TYPE_CHECKING:
    from pathlib import Path

    from ep_campaign.layout import Results

REFUSED_NAME = "validation-refused.json"


def write(found: Validation, results: Results) -> Path:
    """Writes `validation.json`; or, where the folder is refused, `validation-refused.json` and takes the other away.

    Later stages need the first: what is refused is never summarised.

    Returns:
        The file that was written.

    Raises:
        OSError: The disk is full or the folder cannot be written.
    """
    refused = results.root / REFUSED_NAME
    kept, gone = (refused, results.validation) if found.state is State.REFUSED else (results.validation, refused)
    gone.unlink(missing_ok=True)
    write_atomically(kept, pretty_json(found.as_json()))
    return kept
