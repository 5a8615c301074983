"""DeepEP V2: `deep_ep.ElasticBuffer` (deepseek-ai/DeepEP 2.0 on; calls read at dd758ca, 2.1.0), over NCCL's device interface.

Legend: T tokens of this rank, N received rows, H hidden columns, K top-k slots.

Layout and notification are inside the dispatch kernel. `num_sms` bounds the first kernel of dispatch and of combine only;
their epilogues take all SMs. Later versions rename things: what this adapter needs is looked up in their signatures.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed as dist

from ep_worker.backends.build import build_provenance, import_build, installed, require_parameters
from ep_worker.backends.deepep_v1 import ADVICE
from ep_worker.backends.knobs import even, take_knobs
from ep_worker.backends.legacy import received_selections
from ep_worker.backends.protocol import Problem, Rows
from ep_worker.backends.shared import destroy_shared, shared_buffer
from ep_worker.contract.canonical import sha256_file, sha256_text
from ep_worker.failure import MissingBackendError

if TYPE_CHECKING:
    from torch import Tensor

_CONSTRUCTOR = ("num_max_tokens_per_rank", "hidden", "num_topk", "use_fp8_dispatch", "explicitly_destroy")
_DISPATCH = ("topk_idx", "topk_weights", "num_experts", "num_max_tokens_per_rank", "num_sms", "num_qps", "do_cpu_sync")
_KNOBS = {
    "num_sms": 0,
    "num_qps": 0,
    "num_allocated_qps": 0,
    "allow_hybrid_mode": True,
    "allow_multiple_reduction": True,
    "prefer_overlap_with_compute": True,
    "sl_idx": 3,
    "deterministic": False,
    "do_handle_copy": True,
}
_OF_CONSTRUCTOR = (
    "allow_hybrid_mode",
    "allow_multiple_reduction",
    "prefer_overlap_with_compute",
    "sl_idx",
    "deterministic",
    "num_allocated_qps",
)
_CACHE = "EP_JIT_CACHE_DIR"
_WARM_AT_START: dict[str, bool] = {}


def load() -> Any:
    """DeepEP with V2 in it, its kernels' cache set before it is imported.

    Raises:
        MissingBackendError: There is none, or one that holds V1 only, or one whose calls are others.
    """
    directory = os.environ.setdefault(_CACHE, str(cache_directory()))
    _WARM_AT_START.setdefault(directory, Path(directory).is_dir() and any(Path(directory).iterdir()))
    module: Any = import_build("deep_ep", ADVICE)
    if not hasattr(module, "ElasticBuffer"):
        msg = f"{installed('deep_ep')} at {module.__file__} has no ElasticBuffer, which V2 is: use 2.1.0 or later; {ADVICE}"
        raise MissingBackendError(msg)
    require_parameters(module.ElasticBuffer.__init__, "deep_ep.ElasticBuffer", _CONSTRUCTOR)
    require_parameters(module.ElasticBuffer.dispatch, "deep_ep.ElasticBuffer.dispatch", _DISPATCH)
    return module


def cache_directory() -> Path:
    """A directory of this machine for the kernels of this very build.

    Upstream's cache key does not cover the headers of NCCL, and its rename races on shared file systems (DeepEP issues 683
    and 684): so one directory for each build and NCCL, on this machine.
    """
    spec = find_spec("deep_ep")
    folder = None if spec is None or spec.origin is None else Path(spec.origin).parent
    parts = [] if folder is None else [sha256_file(path) for path in sorted(folder.glob("*.so"))]
    parts += [str(torch.__version__), os.environ.get("EP_NCCL_ROOT_DIR", "")]
    return Path(tempfile.gettempdir()) / f"ep-jit-{os.getuid()}-{sha256_text(' '.join(parts))[:16]}"


def artefacts(directory: Path) -> dict[str, Any]:
    """What a JIT cache holds: how many kernels, and one digest over their names and binaries."""
    binaries = sorted(directory.glob("**/*.cubin"))
    listed = [f"{path.relative_to(directory).as_posix()} {sha256_file(path)}" for path in binaries]
    return {"num_binaries": len(binaries), "sha256": sha256_text("\n".join(listed))}


@dataclass(frozen=True)
class UncountedRows:
    """`Rows` of a dispatch that never told the host how many arrived: the rest of its ids is garbage until it is masked.

    The mask is made where someone reads the ids, so that a boundary which does not need them does not pay for it.
    """

    payload_NH: Tensor
    scale_NB: Tensor | None
    raw_expert_NK: Tensor
    weight_NK: Tensor
    num_selections: int
    handle: Any

    @cached_property
    def expert_NK(self) -> Tensor:  # noqa: N802 - the field of `Rows` that it stands for
        """Local expert ids, -1 in rows that did not arrive."""
        num_rows = self.handle.psum_num_recv_tokens_per_scaleup_rank[-1]
        row_N = torch.arange(self.raw_expert_NK.shape[0], device=self.raw_expert_NK.device)
        return torch.where((row_N < num_rows)[:, None], self.raw_expert_NK, -1)


class DeepEpV2:
    """V2 with the host's wait for receive counts, its default."""

    ends_device = False
    waits_for_host = True

    def __init__(self, problem: Problem) -> None:
        module = load()
        knobs = take_knobs(problem, _KNOBS)
        takes = require_parameters(module.ElasticBuffer.__init__, "deep_ep.ElasticBuffer", _CONSTRUCTOR)
        absent = sorted(name for name in _OF_CONSTRUCTOR if name not in takes)
        asked = sorted(set(absent) & set(problem.knobs))
        if asked:
            msg = f"deep_ep.ElasticBuffer of this build has no {', '.join(asked)}: take the knobs out, or use another build"
            raise MissingBackendError(msg)
        shape, fp8 = problem.shape, problem.dtype.value == "fp8"
        options = {name: knobs[name] for name in _OF_CONSTRUCTOR if name in takes}
        self.deterministic = bool(knobs["deterministic"])
        self._problem = problem
        self._do_handle_copy = knobs["do_handle_copy"]
        self._expert_TK = problem.expert_TK.to(module.topk_idx_t).contiguous()
        self._buffer = shared_buffer(
            ("elastic", fp8, *sorted(options.items())),
            lambda: module.ElasticBuffer(
                dist.group.WORLD,
                num_max_tokens_per_rank=shape.max_tokens_per_rank,
                hidden=shape.hidden,
                num_topk=shape.top_k,
                use_fp8_dispatch=fp8,
                explicitly_destroy=True,
                **options,
            ),
        )
        own = knobs["num_sms"] or self._buffer.get_theoretical_num_sms(shape.experts, shape.top_k)
        self._num_sms = even("num_sms", int(own))
        self._num_qps = knobs["num_qps"] or int(self._buffer.get_theoretical_num_qps(self._num_sms))
        self._num_selections = 0 if self.waits_for_host else received_selections(problem)
        self._resolved = {
            **knobs,
            "buffer_bytes": int(self._buffer.num_bytes),
            "num_sms": self._num_sms,
            "num_qps": self._num_qps,
            "num_sms_from_balanced_gate": knobs["num_sms"] == 0,
            "epilogue_num_sms": "all",
            "expert_alignment": 1,
            "do_cpu_sync": self.waits_for_host,
            "absent_in_this_build": absent,
        }

    def layout(self) -> None:
        """Nothing: dispatch does it."""

    def dispatch(self, payload_TH: Tensor, scale_TB: Tensor | None, handle: Any) -> Rows:
        """Delivers by a fresh layout. SMs and queues are said every time: 0 would ask the library's model again."""
        received, expert_NK, weight_NK, route, _ = self._buffer.dispatch(
            payload_TH if scale_TB is None else (payload_TH, scale_TB),
            topk_idx=self._expert_TK,
            topk_weights=self._problem.weight_TK,
            num_experts=self._problem.shape.experts,
            num_max_tokens_per_rank=self._problem.shape.max_tokens_per_rank,
            expert_alignment=1,
            num_sms=self._num_sms,
            num_qps=self._num_qps,
            do_handle_copy=self._do_handle_copy,
            do_cpu_sync=self.waits_for_host,
        )
        payload_NH, scale_NB = received if isinstance(received, tuple) else (received, None)
        if self.waits_for_host:
            counts = route.num_recv_tokens_per_expert_list
            return Rows(payload_NH, scale_NB, expert_NK, weight_NK, sum(counts), route)
        rows: Any = UncountedRows(payload_NH, scale_NB, expert_NK, weight_NK, self._num_selections, route)
        return rows  # type: ignore[no-any-return] # the same attributes, one of them made when it is read

    def combine(self, y_NH: Tensor, handle: Any) -> Tensor:
        """Sums over ranks, unweighted, on as many SMs as dispatch took."""
        out_TH: Tensor = self._buffer.combine(y_NH, handle, num_sms=self._num_sms, num_qps=self._num_qps)[0]
        return out_TH

    def resolved(self) -> dict[str, Any]:
        """SMs, queues, buffer and every knob as they really are."""
        return self._resolved

    @staticmethod
    def provenance() -> dict[str, Any]:
        """Version, commit and shared objects of DeepEP; where its kernels are kept, and whether any were there before."""
        module = load()
        directory = os.environ[_CACHE]
        jit = {"directory": directory, "warm": _WARM_AT_START[directory], "artefacts": artefacts(Path(directory))}
        return {**build_provenance("deep_ep", ("deep_ep",), getattr(module, "__version__", None)), "jit_cache": jit}

    def close(self) -> None:
        """Lets go of the shared buffer."""
        del self._buffer

    @staticmethod
    def release() -> None:
        """Destroys what cells shared."""
        destroy_shared()


class DeepEpV2NoSync(DeepEpV2):
    """V2 that returns the worst case's rows and never waits for the host."""

    waits_for_host = False
