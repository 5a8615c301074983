"""What the logs of NCCL, its libfabric plugin, NVSHMEM, UCCL and libfabric say about the transport that was really used.

Only lines that a library prints once it *uses* something count. Lines that it prints when it merely knows of something do
not: libfabric registers every provider that it was built with, also where none of them works; NCCL loads a GIN plugin and may
then fail to initialise it, or assign another; the plugin's banner stands also over TCP.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_KEPT_LINES = 40
"""Lines that a record keeps as evidence; the whole log lies beside it."""


@dataclass
class NetLog:
    """What a log says.

    Attributes:
        nccl_versions: NCCL as it names itself.
        networks: What NCCL says it uses between nodes: `Libfabric`, `AWS Libfabric`, `IB`, `Socket`.
        providers: What the libfabric plugin selected, with the largest number of NICs found for each (0 where not said).
        fabrics: Fabrics that libfabric opened or the plugin selected: `efa`, `efa-direct`, ...
        channels: NCCL's connections by kind: `NET/Libfabric/GDRDMA`, `NET/Socket`, `P2P/CUMEM`, `SHM/direct`.
        gin: GIN plugins that were assigned to a communicator, with their type.
        nvshmem: Remote transports that NVSHMEM selected or initialised, lower case.
        nvshmem_providers: libfabric providers that NVSHMEM was told to use.
        uccl_nics: NICs that UCCL opened.
        failures: Lines that say that a transport could not be used.
        lines: The lines that all this was read from, each once, in order.
    """

    nccl_versions: set[str] = field(default_factory=set)
    networks: set[str] = field(default_factory=set)
    providers: dict[str, int] = field(default_factory=dict)
    fabrics: set[str] = field(default_factory=set)
    channels: Counter[str] = field(default_factory=Counter)
    gin: set[str] = field(default_factory=set)
    nvshmem: set[str] = field(default_factory=set)
    nvshmem_providers: set[str] = field(default_factory=set)
    uccl_nics: set[str] = field(default_factory=set)
    failures: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


_PATTERNS = {
    name: re.compile(pattern)
    for name, pattern in {
        "nccl_version": r"NCCL version (?P<value>\d+\.\d+\.\d+)",
        "network": r"NCCL INFO Using network (?P<value>\S.*?)\s*$",
        "provider": r"NET/OFI Selected [Pp]rovider is (?P<value>[\w;-]+)"
        r"(?:, fabric is (?P<fabric>[\w-]+))?(?: \(found (?P<num>\d+) nics\))?",
        "fabric": r"Opened fabric: (?P<value>[\w-]+)",
        "channel": r"(?:Channel|Ring) \d+(?:/\d+)? ?: .* via (?P<value>(?:NET|P2P|SHM|COLLNET|NVLS)\S*(?: Libfabric\S*)?)",
        "gin": r"Assigned (?:GIN )?plugin (?P<value>Libfabric\w*|\w+) type (?P<num>\d+) to comm",
        "nvshmem": r"NVSHMEM INFO Selected remote transport: (?P<value>\w+)",
        "nvshmem_ready": r"NVSHMEM INFO Successfully initialized the transport: (?P<value>\w+)",
        "nvshmem_provider": r"NVSHMEM_LIBFABRIC_PROVIDER\s*=?\s*\"?(?P<value>efa|cxi|verbs)\b",
        "uccl": r"\[RDMA\] Selected NIC:? (?P<value>[\w.-]+)",
    }.items()
}
_FAILURES = re.compile(
    r"NET/OFI (?:aws-ofi-nccl initialization failed|Initializing plugin failed)"
    r"|NET/OFI (?:Failed to initialize \w+ protocol|.*fi_getinfo\(\) call failed)"
    r"|GIN/Plugin: Failed to initialize any GIN plugin"
    r"|provider efa output empty list"
    r"|Could not find any optimal provider"
    r"|init failed for (?:remote )?transport: (?!IBGDA)\w+"
    r"|RDMA buffer MR registration failed"
)
_INDEX = re.compile(r"/\d+(?:\(\d+\))?")


def read_log(text: str | Iterable[str]) -> NetLog:
    """Reads the log of one rank, or of several."""
    found = NetLog()
    kept: dict[str, None] = {}
    for line in text.splitlines() if isinstance(text, str) else text:
        if _take(line, found):
            kept.setdefault(line.strip())
    found.lines = list(kept)[:MAX_KEPT_LINES]
    return found


def _take(line: str, found: NetLog) -> bool:
    """Uses one line; whether it said anything."""
    said = False
    for name, pattern in _PATTERNS.items():
        match = pattern.search(line)
        if match is not None:
            said = True
            _note(name, match, found)
    if _FAILURES.search(line):
        found.failures.append(line.strip())
        said = True
    return said


def _note(name: str, match: re.Match[str], found: NetLog) -> None:
    value = match["value"]
    if name == "provider":
        found.providers[value] = max(found.providers.get(value, 0), int(match["num"] or 0))
        found.fabrics |= {match["fabric"]} - {None}
    elif name == "channel":
        found.channels[_INDEX.sub("", value)] += 1
    elif name == "gin":
        found.gin.add(f"{value} type {match['num']}")
    elif name in ("nvshmem", "nvshmem_ready"):
        found.nvshmem.add(value.lower())
    else:
        sets = {
            "nccl_version": found.nccl_versions,
            "network": found.networks,
            "fabric": found.fabrics,
            "nvshmem_provider": found.nvshmem_providers,
            "uccl": found.uccl_nics,
        }
        sets[name].add(value)
