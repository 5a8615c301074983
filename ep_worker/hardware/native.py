"""The probes' C and CUDA sources, compiled where they run: no wheel, no image of ours, and the compiler's words where it fails."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

from ep_worker.contract.canonical import sha256_file

HERE = Path(__file__).parent
COMPILE_S = 240.0


class ProbeRefusedError(Exception):
    """This machine cannot run a probe.

    Attributes:
        code: Stable reason code.
    """

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


def compiled(source: str, folder: Path) -> ctypes.CDLL:
    """A source of this folder as a library that is loaded.

    Args:
        source: File name: `*.c` by the system's C compiler, `*.cu` by nvcc.
        folder: Where the library goes.

    Raises:
        ProbeRefusedError: `no_compiler`, or `cannot_compile` with what the compiler said last.
    """
    path = HERE / source
    made = folder / f"{path.stem}-{sha256_file(path)[:12]}.so"
    if not made.exists():
        command = [*_compiler(path), "-o", str(made), str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=COMPILE_S)
        if done.returncode:
            words = " ".join((done.stderr or done.stdout).split())[-600:]
            raise ProbeRefusedError("cannot_compile", f"{' '.join(command[:1])} ended with {done.returncode}: {words}")
    return ctypes.CDLL(str(made))


def _compiler(path: Path) -> list[str]:
    if path.suffix == ".cu":
        nvcc = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
        if nvcc is None:
            message = "nvcc is neither on the path nor in /usr/local/cuda/bin: use an image with CUDA's compiler"
            raise ProbeRefusedError("no_compiler", message)
        return [nvcc, "-O2", "-shared", "-Xcompiler", "-fPIC", "-arch=native"]
    for name in ("cc", "gcc", "clang"):
        found = shutil.which(name)
        if found:
            return [found, "-O2", "-std=c11", "-shared", "-fPIC", "-pthread"]
    raise ProbeRefusedError("no_compiler", "none of cc, gcc, clang is on the path: install a C compiler")
