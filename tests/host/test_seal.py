"""A seal: what a run asks before it prints a verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from synthetic import seal_folder

from ep_campaign.errors import CampaignError
from ep_campaign.layout import Results
from ep_campaign.seal import check_seal

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def sealed(tmp_path: Path) -> Results:
    """A sealed folder of two files, one with an odd name."""
    (tmp_path / "statistics.json").write_text("{}")
    (tmp_path / "line\nend.svg").write_text("x")
    results = Results(tmp_path)
    seal_folder(results, results.complete)
    return results


def _code(results: Results) -> str:
    with pytest.raises(CampaignError) as refused:
        check_seal(results)
    (code,) = refused.value.codes
    assert f"make summary CAMPAIGN={results.root.name}" in str(refused.value)
    return code


def test_an_unchanged_folder_passes(sealed: Results) -> None:
    """Nothing is refused, odd names included."""
    check_seal(sealed)


@pytest.mark.parametrize("name", ["statistics.json", "line\nend.svg", "SHA256SUMS"])
def test_an_altered_file_is_refused(sealed: Results, name: str) -> None:
    """One byte more, in a covered file or in the checksums."""
    with (sealed.root / name).open("a") as stream:
        stream.write("\n")
    assert _code(sealed) == "altered_file"


def test_a_file_that_is_gone_is_refused(sealed: Results) -> None:
    """What the checksums name must be there."""
    (sealed.root / "statistics.json").unlink()
    assert _code(sealed) == "altered_file"


@pytest.mark.parametrize("name", ["CAMPAIGN_COMPLETE", "SHA256SUMS"])
def test_half_a_seal_is_none(sealed: Results, name: str) -> None:
    """Checksums and exactly one mark."""
    (sealed.root / name).unlink()
    assert _code(sealed) == "not_sealed"


def test_two_marks_are_refused(sealed: Results) -> None:
    """A folder is complete or partial."""
    sealed.partial.write_text("{}")
    assert _code(sealed) == "not_sealed"


def test_a_refused_folder_is_refused(sealed: Results) -> None:
    """Whatever else lies there."""
    (sealed.root / "validation-refused.json").write_text("{}")
    assert _code(sealed) == "folder_refused"
