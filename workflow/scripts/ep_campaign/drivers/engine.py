"""Driver of the bundled engine: it starts it, and reads the files that it keeps."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ep_campaign.drivers.driver import Endpoint, Evidence, Member, Released, Snapshot, TransportProof
from ep_campaign.drivers.observation import read_observation
from ep_campaign.drivers.scale_call import ScaleCall
from ep_campaign.errors import CampaignError, refuse
from ep_worker.contract.canonical import source_digest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ep_campaign.drivers.driver import Resize

ENGINE_ROOT = Path(__file__).resolve().parents[4] / "ep_serve"
_POLL_S = 0.02
_COMPLETIONS = ("/v1/completions", "/v1/chat/completions")
_TRANSPORT = re.compile(
    r"rank (\d+): generation (\d+): transport asked=(\w+) "
    r"num_tcp_sockets=(-?\d+) num_tcp_loopback=(-?\d+) num_shared_maps=(-?\d+)"
)


@dataclass(frozen=True)
class EngineOptions:
    """What the engine is started with.

    Attributes:
        work: Folder for its files; it must hold none of another engine.
        arguments: Options of `python -m ep_serve serve`, by name without dashes in front; True stands for a flag.
        start_timeout_s: Until it must serve.
        resize_timeout_s: Until a scale call must answer.
        stop_timeout_s: Until it must be gone.
    """

    work: Path
    arguments: Mapping[str, str | int | float | bool | list[str]] = field(default_factory=dict)
    start_timeout_s: float = 120.0
    resize_timeout_s: float = 120.0
    stop_timeout_s: float = 30.0


class EngineDriver:
    """As `driver.Driver` says. Start it in a thread that lives as long as the engine: the engine ends with the thread."""

    def __init__(self, options: EngineOptions) -> None:
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self._endpoint: Endpoint | None = None
        self._scale = ScaleCall(options.resize_timeout_s)
        self._seen: dict[str, int] = {}

    @property
    def evidence(self) -> frozenset[Evidence]:
        """Its document and its processes."""
        return frozenset({Evidence.OBSERVATION, Evidence.MEMBERS})

    def start(self, width: int) -> Endpoint:
        """Starts an engine and waits until it serves."""
        options = self._options
        if (options.work / "settings.json").exists():
            raise refuse("engine_folder_used", "another engine wrote here; give each its own folder", str(options.work))
        options.work.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "ep_serve", "serve", "--bound", f"--work={options.work}", f"--width={width}"]
        with (options.work / "front.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *command_options(options.arguments)], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = time.monotonic() + options.start_timeout_s
        while not (options.work / "engine.json").exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                said = (options.work / "front.log").read_text(errors="replace")[-2000:]
                raise refuse("engine_not_started", f"the engine does not serve: {said}", str(options.work))
            time.sleep(_POLL_S)
        document = self._read("engine.json")
        self._endpoint = Endpoint(document["host"], document["port"], document["model"])
        self._remember(self._members())
        return self._endpoint

    def resize(self, old_width: int, new_width: int) -> None:
        """Calls `/scale_elastic_ep`, aside."""
        self._scale.send(self._serving(), old_width, new_width)

    def resized(self) -> Resize | None:
        """The last scale call."""
        return self._scale.now

    def snapshot(self) -> Snapshot:
        """Reads the engine's files."""
        unreadable: list[str] = []
        text = (self._options.work / "observation.json").read_text(encoding="ascii")
        try:
            observation = read_observation(text, "observation.json")
        except CampaignError as error:
            observation = None
            unreadable.extend(str(refusal) for refusal in error.refusals)
        members = self._members()
        self._remember(members)
        raw = json.loads(text)
        return Snapshot(
            received_ns=time.monotonic_ns(),
            deployment_uid=raw.get("deploymentUID"),
            generation=raw.get("observedGeneration"),
            observation=observation,
            num_observations=1,
            members=members,
            unreadable=tuple(unreadable),
            raw={"observation": raw},
        )

    def provenance(self) -> dict[str, Any]:
        """The settings as the engine holds them, its sources, and what each rank's sockets and maps proved."""
        return {
            "engine": "ep_serve",
            "source_digest": source_digest(ENGINE_ROOT),
            "settings": self._read("settings.json"),
            "transport": asdict(self.transport()),
            "groups": self._groups(),
        }

    def transport(self) -> TransportProof:
        """What every rank gained with the group that serves: a connection to each other rank, of one kind and no other."""
        rows = self._groups()
        serving = {one.name for one in self._members() if one.serves}
        last = [
            max((row for row in rows if f"rank-{row['rank']}" == name), key=_generation) for name in sorted(serving)
        ]
        num_peers = len(serving) - 1
        kinds = {_kind(row, num_peers) for row in last} if num_peers else {None}
        name = next(iter(kinds)) if len(kinds) == 1 else None
        words = "; ".join(
            f"rank {row['rank']}: {row['num_tcp_loopback']} of {row['num_tcp_sockets']} TCP sockets to 127.0.0.1, "
            f"{row['num_shared_maps']} shared mappings"
            for row in last
        )
        return TransportProof(name, None, words)

    def server_log(self) -> dict[str, int]:
        """Counts completion calls in the engine's access log."""
        lines = (self._options.work / "access.jsonl").read_text(encoding="ascii").splitlines()
        calls = [json.loads(line) for line in lines]
        return dict(sorted(Counter(str(one["status"]) for one in calls if one["path"] in _COMPLETIONS).items()))

    def stop(self) -> Released:
        """Ends the engine and looks for every process that it ever showed."""
        process = self._process
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(self._options.stop_timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        left = self._left()
        deadline = time.monotonic() + self._options.stop_timeout_s
        while left and time.monotonic() < deadline:  # after a kill, ranks end when they see the front gone
            time.sleep(_POLL_S)
            left = self._left()
        return Released(proved=not left, left=left)

    def _serving(self) -> Endpoint:
        if self._endpoint is None:
            raise refuse("engine_not_started", "the engine was not started", str(self._options.work))
        return self._endpoint

    def _read(self, name: str) -> Any:
        return json.loads((self._options.work / name).read_text(encoding="ascii"))

    def _members(self) -> tuple[Member, ...]:
        """The front and the ranks; a process that ends is not started again, so that no restarts are counted."""
        front = self._read("engine.json")
        shown = [("front", front), *((f"rank-{one['rank']}", one) for one in self._read("ranks.json")["ranks"])]
        return tuple(
            Member(
                name=name,
                uid=f"{one['pid']}-{one['start_ticks']}",
                container_id=None,
                num_restarts=None,
                serves=name != "front",
                running=_start_ticks(one["pid"]) == one["start_ticks"],
            )
            for name, one in shown
        )

    def _remember(self, members: tuple[Member, ...]) -> None:
        for member in members:
            pid, _, ticks = member.uid.partition("-")
            self._seen[pid] = int(ticks)

    def _left(self) -> tuple[str, ...]:
        return tuple(f"process {pid}" for pid, ticks in self._seen.items() if _start_ticks(int(pid)) == ticks)

    def _groups(self) -> list[dict[str, Any]]:
        names = ("rank", "generation", "asked", "num_tcp_sockets", "num_tcp_loopback", "num_shared_maps")
        logs = sorted(self._options.work.glob("rank-*.log"))
        return [
            {name: v if name == "asked" else int(v) for name, v in zip(names, values, strict=True)}
            for log in logs
            for values in _TRANSPORT.findall(log.read_text(errors="replace"))
        ]


def _kind(row: dict[str, Any], num_peers: int) -> str | None:
    """What one rank's group runs over; None where it gained both kinds, or too little of either.

    A busy machine makes gloo connect to a peer once more than it needs, so that more TCP sockets than peers prove TCP, too.
    """
    tcp, loopback, shared = row["num_tcp_sockets"], row["num_tcp_loopback"], row["num_shared_maps"]
    if shared == 0 and tcp == loopback >= num_peers:
        return "tcp"
    return "shm" if (tcp, shared) == (0, 2 * num_peers) else None


def command_options(arguments: Mapping[str, str | int | float | bool | list[str]]) -> list[str]:
    """Options as the command line takes them, in the order of their names."""
    made: list[str] = []
    for name, value in sorted(arguments.items()):
        if isinstance(value, bool):
            made += [f"--{name}"] if value else []
        else:
            made += [f"--{name}={one}" for one in (value if isinstance(value, list) else [value])]
    return made


def _generation(row: dict[str, Any]) -> int:
    return int(row["generation"])


def _start_ticks(pid: int) -> int | None:
    """When the kernel started a process, in its ticks since boot; None where it is gone, or only not yet waited for."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if words[0] == "Z" else int(words[19])
