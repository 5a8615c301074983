# What every stage needs: the campaign of this invocation, where its files lie, and its lock.
import os
import sys
from pathlib import Path

from ep_campaign.errors import CampaignError
from ep_campaign.pipeline import open_pipeline
from snakemake.exceptions import WorkflowError

# Jobs run this interpreter, also where its environment is not activated.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

try:
    PIPELINE = open_pipeline(config)
except CampaignError as error:
    raise WorkflowError(str(error)) from None

ROOT = str(PIPELINE.results.root)
HELD = []


wildcard_constraints:
    ep=r"\d+",
    round=r"\d+",
    attempt=r"\d+",
    profile=r"[a-z0-9][a-z0-9.-]*",
    arm=r"[a-z0-9][a-z0-9.-]*",


onstart:
    try:
        HELD.extend(PIPELINE.hold())
    except CampaignError as error:
        raise WorkflowError(str(error)) from None


def start_id(wildcards):
    """Id of the start that a measuring job's wildcards name."""
    return (
        f"ep{wildcards.ep}/{wildcards.profile}/round-{wildcards.round}/{wildcards.arm}"
    )
