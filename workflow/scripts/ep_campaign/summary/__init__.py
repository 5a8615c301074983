"""The summary of a campaign: the typed form of `statistics.json`."""

from ep_campaign.summary.base import Interval, Note
from ep_campaign.summary.contrast import (
    ArmDiagnostics,
    Contrast,
    Diagnostics,
    ExcludedRound,
    Order,
    Role,
    Ruling,
)
from ep_campaign.summary.custody import Advice, Budget, Cost, Custody, Duration, FailureCount, Gangs, Launches, Observed
from ep_campaign.summary.document import SUMMARY_SCHEMA, Summary, read_summary, write_summary
from ep_campaign.summary.head import Arm, Cell, EpSize, Family, Head, LateStart, Payload, Profile, State
from ep_campaign.summary.level import EpAxis, EpPoint, Level, Missing, Unsupported

__all__ = [
    "SUMMARY_SCHEMA",
    "Advice",
    "Arm",
    "ArmDiagnostics",
    "Budget",
    "Cell",
    "Contrast",
    "Cost",
    "Custody",
    "Diagnostics",
    "Duration",
    "EpAxis",
    "EpPoint",
    "EpSize",
    "ExcludedRound",
    "FailureCount",
    "Family",
    "Gangs",
    "Head",
    "Interval",
    "LateStart",
    "Launches",
    "Level",
    "Missing",
    "Note",
    "Observed",
    "Order",
    "Payload",
    "Profile",
    "Role",
    "Ruling",
    "State",
    "Summary",
    "Unsupported",
    "read_summary",
    "write_summary",
]
