"""The adapters of GPU backends on CPUs: their own code, over fake libraries that move rows through gloo."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from ep_worker.backends.deepep_v1 import DeepEpV1LowLatency, DeepEpV1Normal, DeepEpV1NoSync
from ep_worker.backends.deepep_v2 import DeepEpV2, DeepEpV2NoSync
from ep_worker.backends.uccl import UcclLowLatency, UcclNormal
from ep_worker.contract.capabilities import CAPABILITIES, Capability
from ep_worker.contract.terms import ApiMode, Device


def on_cpu(backend: str, mode: ApiMode) -> Capability:
    """A table entry, with a CPU as its device, and a hidden size that tests can afford."""
    return replace(CAPABILITIES[backend, mode], devices=(Device.CPU,), hidden_sizes=())


class V1(DeepEpV1Normal):
    """Normal mode."""

    capability: ClassVar = on_cpu("deepep-v1", ApiMode.NORMAL)


class V1NoSync(DeepEpV1NoSync):
    """Normal mode, worst case."""

    capability: ClassVar = on_cpu("deepep-v1-nosync", ApiMode.NORMAL)


class V1LowLatency(DeepEpV1LowLatency):
    """Low latency."""

    capability: ClassVar = on_cpu("deepep-v1", ApiMode.LOW_LATENCY)


class V2(DeepEpV2):
    """Elastic."""

    capability: ClassVar = on_cpu("deepep-v2", ApiMode.ELASTIC)


class V2NoSync(DeepEpV2NoSync):
    """Elastic, worst case."""

    capability: ClassVar = on_cpu("deepep-v2-nosync", ApiMode.ELASTIC)


class Uccl(UcclNormal):
    """Normal mode over the raw interface."""

    capability: ClassVar = on_cpu("uccl", ApiMode.NORMAL)


class UcclLow(UcclLowLatency):
    """Low latency over the raw interface."""

    capability: ClassVar = on_cpu("uccl", ApiMode.LOW_LATENCY)
