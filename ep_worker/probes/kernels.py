"""Kernel times of a round-trip by torch's profiler, in a process that measures nothing else: profiling slows what it watches.

Launches are hidden on GPUs, else kernels that wait for a peer would hold the peer's launches, too. On a CPU operators stand for
kernels, so that the same path runs there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.profiler import ProfilerActivity, profile

from ep_worker.contract.kernel_groups import group_of, groups_of, unmatched
from ep_worker.contract.terms import Device
from ep_worker.gates import InadmissibleError
from ep_worker.reason import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch.autograd.profiler_util import EventList, FunctionEvent

    from ep_worker.barrier import Barrier
    from ep_worker.device import Machine

    Step = Callable[[], None]

ITERATIONS = 20
WARMUPS = 5
_SPIN_NS = 5_000_000
_LINE_UP = "AllReduce"
_SPIN = "spin_kernel"
_ANNOTATIONS = ("nccl:", "gloo:", "record_param_comms")
_NS_PER_US = 1000
_MAX_NAME_CHARS = 200

Kernel = tuple[str, int, int]
"""Name, when it began [ns, the profiler's clock], how long it took [ns]."""


def kernel_times(
    backend: str, device: Device, steps: Sequence[Step], machine: Machine, barrier: Barrier, turn: Step
) -> list[dict[str, int]]:
    """For each iteration the time of each group [ns], of `kernels` (all groups) and of the `span` from first to last.

    Raises:
        InadmissibleError: A kernel belongs to no declared group.
        RuntimeError: The profiler did not see what lines the ranks up.
    """
    groups = groups_of(backend, device)
    found = [_iteration(steps, machine, barrier, turn, device) for _ in range(WARMUPS + ITERATIONS)][WARMUPS:]
    strange = unmatched((name for kernels in found for name, _, _ in kernels), groups)
    if strange:
        shown = "; ".join(name[:_MAX_NAME_CHARS] for name in strange)
        msg = f"found kernels {shown}, expected those of groups {', '.join(groups)}: declare them in contract/kernel_groups.py"
        raise InadmissibleError(Reason.UNMATCHED_KERNEL, msg)
    return [_by_group(kernels, groups) for kernels in found]


def _by_group(kernels: list[Kernel], groups: dict[str, str]) -> dict[str, int]:
    times_ns = dict.fromkeys(groups, 0)
    for name, _, duration_ns in kernels:
        times_ns[str(group_of(name, groups))] += duration_ns
    ends = [began + duration for _, began, duration in kernels]
    span_ns = max(ends) - min(began for _, began, _ in kernels) if kernels else 0
    return {**times_ns, "kernels": sum(times_ns.values()), "span": span_ns}


def _iteration(steps: Sequence[Step], machine: Machine, barrier: Barrier, turn: Step, device: Device) -> list[Kernel]:
    """What one iteration ran, the harness's own kernels left out."""
    turn()
    machine.chill()
    machine.settle()
    activity = ProfilerActivity.CPU if device is Device.CPU else ProfilerActivity.CUDA
    with profile(activities=[activity]) as watched:
        barrier()
        _hide_launches(machine, device)
        for step in steps:
            step()
        machine.settle()
    events = watched.events()
    return on_cpu(events) if device is Device.CPU else after_line_up(on_gpu(events))


def _hide_launches(machine: Machine, device: Device) -> None:
    if device is Device.CUDA:
        from ep_worker.cuda import CudaMachine  # noqa: PLC0415 - a rank on CPUs never comes here

        assert isinstance(machine, CudaMachine)
        machine.spin(_SPIN_NS)
        machine.line_up()


def on_cpu(events: EventList) -> list[Kernel]:
    """Operators with the time that each spent in itself."""
    return [
        (event.name, round(event.time_range.start * _NS_PER_US), round(event.self_cpu_time_total * _NS_PER_US))
        for event in events
    ]


def on_gpu(events: EventList) -> list[Kernel]:
    """What ran on the device, without the ranges that libraries name there."""

    def kernel(event: FunctionEvent) -> bool:
        annotated = getattr(event, "is_user_annotation", False) or event.name.startswith(_ANNOTATIONS)
        return event.device_type.name == "CUDA" and not annotated

    return [
        (event.name, round(event.time_range.start * _NS_PER_US), round(event.time_range.elapsed_us() * _NS_PER_US))
        for event in events
        if kernel(event)
    ]


def after_line_up(kernels: list[Kernel]) -> list[Kernel]:
    """The arm's own kernels: all that began after the spin and the collective that lines the ranks up.

    Raises:
        RuntimeError: One of the two is not there.
    """
    in_order = sorted(kernels, key=lambda one: one[1])
    names = [name for name, _, _ in in_order]
    spin = next((place for place, name in enumerate(names) if _SPIN in name), None)
    last = None if spin is None else next((p for p in range(spin + 1, len(names)) if _LINE_UP in names[p]), None)
    if last is None:
        msg = f"found kernels {', '.join(name[:60] for name in names) or 'none'}, expected {_SPIN}, then {_LINE_UP}, first"
        raise RuntimeError(msg)
    return in_order[last + 1 :]


def as_json(times: list[dict[str, int]]) -> dict[str, Any]:
    """Groups, each with its time in each iteration [ns]."""
    return {name: [one[name] for one in times] for name in times[0]}
