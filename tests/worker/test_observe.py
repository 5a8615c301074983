"""Provenance of a GPU rank, as far as it is text: version numbers, what nvidia-smi says, libraries that are mapped."""

from __future__ import annotations

from typing import Any

import pytest

from ep_worker.observe_cuda import mapped_libraries, nccl_version_text, read_clocks


@pytest.mark.parametrize(("number", "text"), [(22809, "2.28.9"), (23102, "2.31.2"), (21000, "2.10.0")])
def test_a_version_number_is_read(number: int, text: str) -> None:
    """NCCL 2.28.9 calls itself 22809."""
    assert text == nccl_version_text(number)


@pytest.mark.parametrize(
    ("answer", "clocks", "reasons"),
    [
        ("1980, 3201, 0x0000000000000001", {"sm": 1980, "memory": 3201}, "0x0000000000000001"),
        ("[N/A], 3201, 0x0", None, "0x0"),
        ("", None, None),
    ],
)
def test_what_is_not_said_is_null(answer: str, clocks: Any, reasons: Any) -> None:
    """A clock that the driver does not give, or no answer at all, is null, which validation refuses."""
    assert {"gpu_clocks_mhz": clocks, "gpu_throttle_reasons": reasons} == read_clocks(answer)


def test_mapped_libraries_are_found_by_their_names() -> None:
    """The C library of this process is mapped once; a library that is not here is not found."""
    assert ["libc.so.6"] == [path.name for path in mapped_libraries("libc.so")]
    assert [] == mapped_libraries("libnccl.so")
