# What every stage needs: the campaign of this invocation, where its files lie, and its lock.
from ep_campaign.errors import CampaignError
from ep_campaign.pipeline import open_pipeline, use_this_interpreter
from snakemake.exceptions import WorkflowError

use_this_interpreter()

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
