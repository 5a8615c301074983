"""Which build a backend is when it is torch itself."""

from __future__ import annotations

from typing import Any

import torch

from ep_worker.contract.provenance import not_applicable


def torch_provenance() -> dict[str, Any]:
    """Version and commit of torch; its files are the collective library's, which is recorded of every arm."""
    return {
        "backend_version": torch.__version__,
        "backend_commit": torch.version.git_version,
        "backend_files": not_applicable("the arm is torch.distributed: it has no shared object of its own"),
        "jit_cache": not_applicable("the arm compiles nothing at run time"),
    }
