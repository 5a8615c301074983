"""Time the exact statistics against what they replace: 20,000 pure-Python bootstrap resamples for each contrast.

Paired runs on fresh data: in each run both sides treat the same 48 contrasts (24 cells of three arms, 16 rounds), the
side that goes first alternating. Two exact sides: `contrasts` (interval, both paired tests, Holm) answers what the
bootstrap answers; `verdicts` adds order, drift and unstable-start diagnostics and the decision. The first run pays for
the cached null laws, so its times are printed apart.

    python benchmarks/statistics_speed.py --runs 5
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from typing import TYPE_CHECKING

import numpy as np

from ep_campaign.stats.contrast import compare, log_ratios
from ep_campaign.stats.family import holm
from ep_campaign.stats.judge import CellRounds, judge
from ep_campaign.stats.published_compat import bootstrap_median_interval, paired_improvements_percent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

NUM_CELLS = 24
NUM_ROUNDS = 16
ARMS = ("reference", "b", "c")


def make_cells(seed: int) -> list[CellRounds]:
    """24 cells of three arms: 3 % starts, arms 5 % apart, orders dealt from the six."""
    rng = np.random.default_rng(seed)
    orders = np.array(list(itertools.permutations(range(3))))
    cells = []
    for number in range(NUM_CELLS):
        values_NA = 500 * np.exp(rng.normal([0, 0.05, -0.05], 0.03, (NUM_ROUNDS, 3)))
        positions_NA = np.argsort(orders[rng.permutation(np.arange(NUM_ROUNDS) % 6)], axis=1)
        cells.append(CellRounds(f"cell-{number:02d}", ARMS, ARMS[0], values_NA, positions_NA))
    return cells


def exact_contrasts(cells: Sequence[CellRounds]) -> None:
    """Interval, both tests and Holm of every contrast."""
    pairs = [(cell.values[:, column], cell.values[:, 0]) for cell in cells for column in (1, 2)]
    holm([compare(log_ratios(arm, reference)).p for arm, reference in pairs])


def exact_verdicts(cells: Sequence[CellRounds]) -> None:
    """Everything up to the verdicts."""
    judge(cells)


def bootstrap(cells: Sequence[CellRounds]) -> None:
    """The published procedure: paired improvements and 20,000 resampled medians for each contrast."""
    for number, (cell, column) in enumerate(itertools.product(cells, (1, 2))):
        improvements = paired_improvements_percent(
            cell.values[:, column].tolist(), cell.values[:, 0].tolist(), higher_is_better=False
        )
        bootstrap_median_interval(improvements, seed=number)


def seconds(work: Callable[[Sequence[CellRounds]], None], cells: Sequence[CellRounds]) -> float:
    """Wall time of one call [s]."""
    start = time.perf_counter()
    work(cells)
    return time.perf_counter() - start


def main() -> None:
    """Run the pairs and print one line each, then the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="paired runs after the first")
    parser.add_argument("--seed", type=int, default=20_261_130)
    options = parser.parse_args()
    sides = (exact_contrasts, exact_verdicts, bootstrap)
    ratios: list[tuple[float, float]] = []
    print("| run | contrasts [ms] | verdicts [ms] | bootstrap [ms] | x contrasts | x verdicts |")
    print("|---|--:|--:|--:|--:|--:|")
    for run in range(options.runs + 1):
        cells = make_cells(options.seed + run)
        order = sides if run % 2 else sides[::-1]
        took = {side: seconds(side, cells) for side in order}
        contrasts, verdicts, resamples = (took[side] for side in sides)
        ratio = (resamples / contrasts, resamples / verdicts)
        name = "cold" if run == 0 else str(run)
        times = f"{1e3 * contrasts:.2f} | {1e3 * verdicts:.2f} | {1e3 * resamples:.0f}"
        print(f"| {name} | {times} | {ratio[0]:.0f} | {ratio[1]:.0f} |")
        if run:
            ratios.append(ratio)
    medians = [statistics.median(column) for column in zip(*ratios, strict=True)]
    print(f"\nmedian of {options.runs} warm runs: contrasts {medians[0]:.0f} x, verdicts {medians[1]:.0f} x")


if __name__ == "__main__":
    main()
