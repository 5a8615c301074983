"""The worker's sources as one archive: the same bytes wherever and whenever it is made."""

from __future__ import annotations

import io
import zipfile
from functools import cache

from ep_campaign.identity import WORKER_ROOT

_EPOCH = (1980, 1, 1, 0, 0, 0)


@cache
def worker_archive() -> bytes:
    """A zip of `ep_worker/`, for PYTHONPATH; no dates, no owners, names in order."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(WORKER_ROOT.rglob("*.py")):
            info = zipfile.ZipInfo(f"ep_worker/{path.relative_to(WORKER_ROOT).as_posix()}", _EPOCH)
            info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(info, path.read_bytes())
    return stream.getvalue()
