"""Small plans for tests: a campaign as a dict, each top-level field of which a test may replace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from ep_campaign.expand import load_plan

if TYPE_CHECKING:
    from ep_campaign.plan import Plan

REPOSITORY = Path(__file__).resolve().parents[1]
SHAPES = REPOSITORY / "config" / "shapes.yaml"
ARMS = ("torch-a2a", "torch-a2a-cached", "torch-agrs")


def campaign(**fields: Any) -> dict[str, Any]:
    """A valid campaign: three portable arms at EP 2, one profile, one route, one dtype, three rounds, no family."""
    return {
        "schema": "ep-campaign/campaign/1",
        "name": "tiny",
        "kind": "comparison",
        "description": "A campaign of the tests.",
        "device": "cpu",
        "seed": 7,
        "arms": [{"name": arm, "backend": arm} for arm in ARMS],
        "reference": ARMS[0],
        "profiles": [profile("decode")],
        "routes": [{"name": "uniform", "kind": "uniform"}],
        "dtypes": ["bf16"],
        "ep_sizes": [{"ranks": 2, "rounds": 3, "scored": False}],
        "measurement": {"modes": ["host_start"], "isolated_loops": False, "iterations": 20, "warmups": 2},
        **fields,
    }


def profile(name: str, tokens_per_rank: int = 8, **fields: Any) -> dict[str, Any]:
    """A profile of 128 columns, 8 experts and top-2."""
    return {"name": name, "tokens_per_rank": tokens_per_rank, "hidden": 128, "experts": 8, "top_k": 2, **fields}


def make_plan(folder: Path, **fields: Any) -> Plan:
    """The plan of `campaign(**fields)`, whose file is written into `folder`."""
    value = campaign(**fields)
    path = folder / f"{value['name']}.yaml"
    path.write_text(yaml.safe_dump(value, sort_keys=False), encoding="utf-8")
    return load_plan(path, SHAPES)
