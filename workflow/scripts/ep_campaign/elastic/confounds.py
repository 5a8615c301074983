"""What else differs between things that are compared: every setting that two provenances show differently."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ep_worker.contract.canonical import canonical_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ep_campaign.elastic.plan import ElasticPlan

_COMPARED = ("engine", "source_digest", "settings", "spec", "version", "models")
"""Parts of a provenance that say how a target is set up; the rest is observed per process."""
_IS_WIDTH = ("settings.width", "elasticEp.width")
_IS_TRANSPORT = ("settings.transport",)


def arm_confounds(plan: ElasticPlan, provenances: dict[tuple[str, str], dict[str, Any]]) -> list[dict[str, Any]]:
    """Settings in which an arm differs from the reference beside its transport, for each state that both measured.

    Args:
        plan: Plan.
        provenances: One for each (arm, state).
    """
    found = []
    reference = plan.document["reference"]
    for arm, declared in plan.arms.items():
        for state in plan.states:
            pair = provenances.get((reference, state)), provenances.get((arm, state))
            if arm == reference or pair[0] is None or pair[1] is None:
                continue
            for field, ours, theirs in differences(pair[1], pair[0]):
                if not field.endswith(_IS_TRANSPORT):
                    reason = next((why for name, why in declared["varied"].items() if name in field), "")
                    found.append(
                        {"arm": arm, "state": state, "field": field, "arm_value": ours, "reference_value": theirs}
                        | {"declared": reason}
                    )
    return found


def state_confounds(plan: ElasticPlan, provenances: dict[tuple[str, str], dict[str, Any]]) -> list[dict[str, Any]]:
    """Settings in which a state differs from the reference state beside its width, for each arm."""
    found = []
    reference = plan.document["reference_state"]
    for arm in plan.arms:
        for state in plan.states:
            pair = provenances.get((arm, reference)), provenances.get((arm, state))
            if state == reference or pair[0] is None or pair[1] is None:
                continue
            found += [
                {"arm": arm, "state": state, "field": field, "state_value": ours, "reference_value": theirs}
                for field, ours, theirs in differences(pair[1], pair[0])
                if not field.endswith(_IS_WIDTH)
            ]
    return found


def differences(first: dict[str, Any], second: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Field, first's value and second's, for every setting that is not the same."""
    left, right = dict(_flat(first)), dict(_flat(second))
    names = sorted(set(left) | set(right))
    return [
        (name, left.get(name, "absent"), right.get(name, "absent"))
        for name in names
        if left.get(name) != right.get(name)
    ]


def _flat(provenance: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name in _COMPARED:
        if name in provenance:
            yield from _leaves(name, provenance[name])


def _leaves(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key in sorted(value):
            yield from _leaves(f"{name}.{key}", value[key])
    elif isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        for index, one in enumerate(value):
            yield from _leaves(f"{name}.{index}", one)
    else:
        yield name, value if isinstance(value, str) else canonical_json(value)
