"""Judges what pods of the pinned audit image saw of their nodes: modules, drivers, devices; and that the nodes are alike."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ep_campaign.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

ALIKE = ("kernel", "machine", "modules", "num_gpus")
"""What must be equal on all nodes of a start: ranks on unequal nodes measure the unequal node."""


@dataclass(frozen=True)
class AuditNeeds:
    """What a place asks of its nodes.

    Attributes:
        modules: Least version of each module that must be loaded; empty text for any.
        parameters: Module parameters and their values, such as `{"nvidia_uvm/uvm_disable_hmm": "Y"}`.
        character_devices: Device files that must be character devices in the pod.
        nics: Least number of NICs of each driver, such as `{"efa": 8}`.
        num_gpus: Least number of GPUs.
        memlock_bytes: Least limit on locked memory [bytes]; -1 in an audit is no limit.
    """

    modules: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    character_devices: tuple[str, ...] = ()
    nics: Mapping[str, int] = field(default_factory=dict)
    num_gpus: int = 0
    memlock_bytes: int = 0


def audit_refusals(needs: AuditNeeds, audits: Mapping[str, Mapping[str, Any]]) -> list[Refusal]:
    """Everything that is wrong with the audited nodes, by node and then between them."""
    found = []
    for node, audit in sorted(audits.items()):
        found += _modules(needs, audit, f"node {node}")
        found += _devices(needs, audit, f"node {node}")
    return [*found, *_unlike(audits)]


def _modules(needs: AuditNeeds, audit: Mapping[str, Any], where: str) -> list[Refusal]:
    found = []
    for name, least in sorted(needs.modules.items()):
        version = audit["modules"].get(name)
        if version is None:
            message = (
                f"kernel module {name} is not loaded: load it on the node (its image or a DaemonSet), then try again"
            )
            found.append(Refusal("module_missing", message, where))
        elif least and version_key(version) < version_key(least):
            message = (
                f"kernel module {name} is {version or 'unversioned'}, expected at least {least}: install a newer driver"
            )
            found.append(Refusal("module_too_old", message, where))
    for name, wanted in sorted(needs.parameters.items()):
        value = audit["parameters"].get(name)
        if _truth(value) != _truth(wanted):
            message = (
                f"module parameter {name} is {value!r}, expected {wanted!r}: set it in modprobe.d and reload the module"
            )
            found.append(Refusal("wrong_module_parameter", message, where))
    return found


def _devices(needs: AuditNeeds, audit: Mapping[str, Any], where: str) -> list[Refusal]:
    found = []
    for name in needs.character_devices:
        if name not in audit["character_devices"]:
            message = f"{name} is no character device in the pod: is its module loaded, and does the place mount it?"
            found.append(Refusal("device_missing", message, where))
    drivers = list(audit["nics"].values())
    for driver, least in sorted(needs.nics.items()):
        if drivers.count(driver) < least:
            has = drivers.count(driver)
            message = f"the pod sees {has} NICs of driver {driver!r}, expected {least}: does it ask for their resource?"
            found.append(Refusal("too_few_nics", message, where))
    if audit["num_gpus"] < needs.num_gpus:
        message = f"the pod sees {audit['num_gpus']} GPUs, expected {needs.num_gpus}"
        found.append(Refusal("too_few_gpus", message, where))
    if 0 <= audit["memlock_bytes"] < needs.memlock_bytes:
        message = (
            f"locked memory is limited to {audit['memlock_bytes']} bytes, expected {needs.memlock_bytes}: add IPC_LOCK"
        )
        found.append(Refusal("memlock_too_low", message, where))
    return found


def _unlike(audits: Mapping[str, Mapping[str, Any]]) -> list[Refusal]:
    found = []
    for name in ALIKE:
        values: dict[str, list[str]] = {}
        for node, audit in sorted(audits.items()):
            values.setdefault(str(audit[name]), []).append(node)
        if len(values) > 1:
            groups = "; ".join(f"{', '.join(nodes)}: {value}" for value, nodes in sorted(values.items()))
            message = f"{name} differs between nodes ({groups}): a start would measure the odd node; name equal ones"
            found.append(Refusal("nodes_unlike", message, "node set"))
    return found


def version_key(text: str) -> tuple[int, ...]:
    """The numbers of a version such as `3.3.0g`, for comparison."""
    return tuple(int(number) for number in re.findall(r"\d+", text))


def _truth(value: str | None) -> str | None:
    """A module parameter as the kernel writes it: booleans are Y or N, and 1 or 0 in other versions."""
    return {"1": "Y", "0": "N"}.get(value or "", value)
