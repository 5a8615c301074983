"""Generated files stand in the repository as they would be generated now, and the annotated default is a valid campaign."""

from __future__ import annotations

import difflib

import pytest
import yaml
from plans import REPOSITORY

from ep_campaign.campaign import Campaign
from ep_campaign.documents import annotated, generated


@pytest.mark.parametrize("path", generated(), ids=str)
def test_generated_files_have_not_drifted(path):
    """Run `make documents` after changing a campaign model."""
    there, text = (REPOSITORY / path).read_text(encoding="utf-8"), generated()[path]

    difference = "".join(difflib.unified_diff(there.splitlines(True), text.splitlines(True), "there", "generated", n=1))
    assert not difference


def test_the_annotated_default_is_a_campaign_of_defaults():
    """It validates, and every optional field in it has its model's default."""
    value = Campaign.model_validate(yaml.safe_load(annotated()))

    assert Campaign.model_validate(value.model_dump(by_alias=True)) == value
    assert Campaign.model_fields["order"].default is value.order
    assert Campaign.model_fields["measurement"].default == value.measurement


def test_every_field_says_what_it_means():
    """No field of any section is without a description."""
    undescribed = [name for name, info in Campaign.model_fields.items() if not info.description]
    schema = Campaign.model_json_schema(by_alias=True)
    undescribed += [
        f"{name}.{field}"
        for name, definition in schema["$defs"].items()
        for field, value in definition.get("properties", {}).items()
        if "description" not in value
    ]

    assert not undescribed
