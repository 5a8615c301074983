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
    slot=r"[a-z0-9.-]+/round-\d+/[a-z0-9.-]+",
    attempt=r"\d+",


onstart:
    try:
        HELD.extend(PIPELINE.hold(here=workflow.local_exec))
    except CampaignError as error:
        raise WorkflowError(str(error)) from None
