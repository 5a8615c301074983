"""Do the figures follow from the raw times? Samples whole, positive and in range; every summary computed again with numpy.

Legend: S samples, R ranks, P phases.
"""

from __future__ import annotations

import errno
import math
import zlib
from typing import TYPE_CHECKING

import numpy as np

from ep_campaign.validate.finding import Violation, note, refusal
from ep_campaign.validate.matrix import record_name
from ep_worker.contract.accounting import payload_bytes
from ep_worker.contract.record import SAMPLES_FILE
from ep_worker.contract.series import phases
from ep_worker.contract.slow_rank import RATIO, REASON_CODE, rank_spread
from ep_worker.contract.terms import Loop, Status

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy.typing as npt

    from ep_campaign.startfile import Record, Samples
    from ep_campaign.validate.attempt import Attempt
    from ep_worker.contract.series import Series

RELATIVE_TOLERANCE = 1e-12
_SAMPLE_BYTES = 8
_GZIP_WBITS = 16 + zlib.MAX_WBITS
_NANOSECONDS = 1e9


def read_samples(attempt: Attempt, found: list[Violation]) -> bytes | None:
    """The raw times of an attempt, all of them; None, and the reason in `found`, where they are not whole."""
    file = f"{attempt.file.rpartition('/')[0]}/{SAMPLES_FILE}"
    held = [record.samples for record in attempt.record.records if record.samples is not None]
    expected = sum(_num_bytes(samples) for samples in held)
    planned = sum(_SAMPLE_BYTES * math.prod(_shape(attempt, series)) for series in attempt.spec.series)
    if expected > planned:
        return None  # its records' shapes are not the plan's, and nobody knows how much there is to read
    try:
        packed = _read_regular(attempt.folder / SAMPLES_FILE)
        unpacker = zlib.decompressobj(wbits=_GZIP_WBITS)
        data = unpacker.decompress(packed, expected + 1)
    except FileNotFoundError:
        found.append(refusal("missing_file", file, "", "no such file", f"{expected} bytes of raw times, compressed"))
        return None
    except (OSError, zlib.error) as error:
        found.append(refusal("samples_not_whole", file, "", f"{type(error).__name__}: {error}", "a whole gzip file"))
        return None
    if len(data) <= expected and (not unpacker.eof or unpacker.unused_data):
        cut = "trailing bytes" if unpacker.eof else "an end cut short"
        found.append(refusal("samples_not_whole", file, "", cut, "a whole gzip file"))
        return None
    if len(data) != expected:
        length = f"more than {expected} bytes" if len(data) > expected else f"{len(data)} bytes"
        found.append(
            refusal("samples_length", file, "", length, f"{expected} bytes: what the records' shapes add up to")
        )
        return None
    return data


def _read_regular(path: Path) -> bytes:
    """The bytes of a file; a pipe would be waited for without end."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "is no regular file")
    return path.read_bytes()


def check_samples(attempt: Attempt) -> Iterator[Violation]:
    """Every ok series has its samples: planned shape, one after another, positive, below the start's own bound."""
    found: list[Violation] = []
    data = read_samples(attempt, found)
    yield from found
    series_by_key = {series.key: series for series in attempt.spec.series}
    offset = 0
    for record in attempt.record.records:
        samples, series = record.samples, series_by_key.get(record.key)
        if samples is None or series is None:
            continue
        name = f"{record_name(record)}.samples"
        misshapen = list(_check_shape(attempt, series, samples, name))
        yield from misshapen
        if samples.offset_bytes != offset:
            yield refusal(
                "samples_offset", attempt.file, f"{name}.offset_bytes", str(samples.offset_bytes), str(offset)
            )
        offset += _num_bytes(samples)
        if data is None or misshapen or samples.offset_bytes + _num_bytes(samples) > len(data):
            continue
        times_SRP = times(data, samples)
        yield from _check_range(attempt, times_SRP, name)
        yield from _check_latency(attempt, record, series, times_SRP)
        yield from _check_ranks(attempt, series, times_SRP, record_name(record))


def times(data: bytes, samples: Samples) -> npt.NDArray[np.int64]:
    """The raw times of one record [ns], [sample, rank, phase]."""
    count = math.prod(samples.shape)
    return np.frombuffer(data, dtype="<i8", count=count, offset=samples.offset_bytes).reshape(samples.shape)


def _num_bytes(samples: Samples) -> int:
    return _SAMPLE_BYTES * math.prod(samples.shape)


def _shape(attempt: Attempt, series: Series) -> tuple[int, int, int]:
    num_phases = len(phases(series, attempt.capability))
    return (series.iterations // series.chain_length, attempt.spec.ep_size, num_phases)


def _check_shape(attempt: Attempt, series: Series, samples: Samples, name: str) -> Iterator[Violation]:
    expected_phases, shape = phases(series, attempt.capability), _shape(attempt, series)
    if samples.shape != shape:
        yield refusal("samples_shape", attempt.file, f"{name}.shape", str(samples.shape), str(shape))
    if samples.phases != expected_phases:
        shown = [[phase.value for phase in item] for item in (samples.phases, expected_phases)]
        yield refusal("samples_shape", attempt.file, f"{name}.phases", str(shown[0]), str(shown[1]))


def _check_range(attempt: Attempt, times_SRP: npt.NDArray[np.int64], name: str) -> Iterator[Violation]:
    bound_ns = int(attempt.spec.watchdog_s * _NANOSECONDS)
    least, most = int(times_SRP.min()), int(times_SRP.max())
    if least <= 0:
        yield refusal("sample_not_positive", attempt.file, name, f"{least} ns", "times above 0")
    if most > bound_ns:
        yield refusal("sample_too_large", attempt.file, name, f"{most} ns", f"at most the watchdog's {bound_ns} ns")


def _check_latency(
    attempt: Attempt, record: Record, series: Series, times_SRP: npt.NDArray[np.int64]
) -> Iterator[Violation]:
    if record.latency is None:
        return
    slowest_SP = times_SRP.max(axis=1) / series.chain_length
    whole_S = slowest_SP[:, -1]
    median_ns = float(np.median(whole_S))
    route = next(cell.route for cell in attempt.spec.cells if cell.id == series.cell)
    num_tokens = sum(attempt.spec.route(route).num_tokens)
    expected = {
        "median_ns": median_ns,
        "mean_ns": float(np.mean(whole_S)),
        "min_ns": float(whole_S.min()),
        "max_ns": float(whole_S.max()),
        "input_tokens_per_second": num_tokens / median_ns * _NANOSECONDS,
    }
    found = {name: float(getattr(record.latency, name)) for name in expected}
    by_phase = dict(zip(phases(series, attempt.capability), np.median(slowest_SP, axis=0), strict=True))
    expected |= {f"phase_median_ns.{phase.value}": float(value) for phase, value in by_phase.items()}
    found |= {f"phase_median_ns.{phase.value}": value for phase, value in record.latency.phase_median_ns.items()}
    for name in sorted(expected | found):
        if not _close(found.get(name), expected.get(name)):
            field = f"{record_name(record)}.latency.{name}"
            recomputed = f"{expected.get(name)}, computed again from the samples"
            yield refusal("latency_differs", attempt.file, field, str(found.get(name)), recomputed)


def _close(found: float | None, expected: float | None) -> bool:
    return found is not None and expected is not None and math.isclose(found, expected, rel_tol=RELATIVE_TOLERANCE)


def _check_ranks(attempt: Attempt, series: Series, times_SRP: npt.NDArray[np.int64], name: str) -> Iterator[Violation]:
    """In the round-trips that carry the verdicts, one rank that makes the latency is worth a note."""
    if series.loop is not Loop.ROUNDTRIP or (series.boundary, series.mode) != attempt.plan.primary:
        return
    spread = rank_spread(times_SRP.ravel().tolist(), times_SRP.shape[1], times_SRP.shape[2])
    if spread.flagged:
        action = (
            "with a balanced route it is a busy core, a throttled device or a slow link of that rank: find out which"
        )
        expected = f"each rank in its turn, or within {RATIO - 1:.0%} of the others"
        yield note(REASON_CODE, attempt.file, name, spread.sentence, expected, action)


def check_payload_bytes(attempt: Attempt) -> Iterator[Violation]:
    """The bytes of an ok record follow from its route's counts and its dtype."""
    workloads = attempt.record.workload or {}
    for record in attempt.record.records:
        workload = workloads.get(record.route)
        if record.status is not Status.OK or workload is None:
            continue
        expected = payload_bytes(workload.counts.as_route_counts(), record.dtype, attempt.spec.shape.hidden)
        if record.payload_bytes != expected:
            field = f"{record_name(record)}.payload_bytes"
            yield refusal("payload_bytes_wrong", attempt.file, field, str(record.payload_bytes), str(expected))


def check_bandwidth(attempt: Attempt) -> Iterator[Violation]:
    """No rank's link carried more than it can: bytes that must leave one rank, over the median, against the declared peak."""
    peak = attempt.plan.document["limits"]["link_peak_gigabytes_per_second"]
    if peak is None:
        return
    one_domain = attempt.spec.domain_size >= attempt.spec.ep_size
    for record in attempt.record.records:
        if record.latency is None or record.payload_bytes is None or record.loop is not Loop.ROUNDTRIP:
            continue
        convention = (
            "rank_deduplicated" if one_domain else "domain_deduplicated"
        )  # what leaves a domain is the NIC's to carry
        num_bytes = record.payload_bytes.get(convention, {}).get("rank_max_remote", 0)
        gigabytes_per_second = num_bytes / record.latency.median_ns
        if gigabytes_per_second > peak:
            action = "the clock, the bytes or the declared peak is wrong: find out which before using any number of it"
            expected = f"at most limits.link_peak_gigabytes_per_second = {peak:g}"
            field = record_name(record)
            found = f"{gigabytes_per_second:.6g} GB/s"
            yield refusal("faster_than_link", attempt.file, field, found, expected, action)
