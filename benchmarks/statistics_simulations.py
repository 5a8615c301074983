"""Check by simulation what the statistics promise: interval levels, family-wise error, vetoes, bootstrap coverage.

Prints a Markdown table: what was simulated, the rate found, the rate promised, and three Monte-Carlo standard errors.

    python benchmarks/statistics_simulations.py --data-sets 20000 --families 2000

Shapes: N rounds, A arms.
"""

from __future__ import annotations

import argparse
import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ep_campaign.stats.bootstrap import ideal_bootstrap_interval, true_median_coverage
from ep_campaign.stats.diagnostics import DRIFT_RHO, VETO_P, drift, order_effect, unstable_starts
from ep_campaign.stats.judge import CellRounds, judge
from ep_campaign.stats.median import median_interval, order_statistic_ranks
from ep_campaign.stats.signed_rank import signed_rank_interval, signed_rank_k
from ep_campaign.stats.spearman import spearman
from ep_campaign.stats.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ep_campaign.stats.arrays import FloatArray, IntArray

START_SD = 0.03
ORDERS_K3 = tuple(itertools.permutations(range(3)))
"""The Williams set of three arms is all six orders."""

ORDER_VETO_NULL_RATE = 0.02
"""Upper end of what centring per arm makes of the nominal 1 %; see `diagnostics.order_effect`."""


@dataclass(frozen=True)
class Rate:
    """A simulated rate and what it should be.

    Attributes:
        what: What was simulated.
        found: Share of the data sets.
        promised: Exact rate, or a bound.
        kind: `=` for an exact rate, `<=` or `>=` for a bound.
        num_sets: Data sets simulated.
    """

    what: str
    found: float
    promised: float
    kind: str
    num_sets: int

    @property
    def margin(self) -> float:
        """Three Monte-Carlo standard errors at the promised rate, and at least three data sets."""
        sd = math.sqrt(self.promised * (1 - self.promised) / self.num_sets)
        return max(3 * sd, 3 / self.num_sets)

    @property
    def holds(self) -> bool:
        """Whether the rate found keeps the promise within the margin."""
        too_high = self.found > self.promised + self.margin
        too_low = self.found < self.promised - self.margin
        return not ((too_high and self.kind != ">=") or (too_low and self.kind != "<="))


def interval_levels(n: int, num_sets: int, seed: int) -> Iterator[Rate]:
    """Coverage of both exact intervals: medians of skewed starts, centres of symmetric log ratios."""
    rng = np.random.default_rng(seed)
    ranks, found = order_statistic_ranks(n), signed_rank_k(n)
    if ranks is None or found is None:
        msg = f"n = {n} has no 95 % interval; simulate 6 or more"
        raise ValueError(msg)
    hits = [_covers(median_interval(row), 1.0) for row in rng.lognormal(0, 0.5, (num_sets, n))]
    yield Rate(f"order-statistic interval, n = {n}", float(np.mean(hits)), ranks.level, "=", num_sets)
    hits = [_covers(signed_rank_interval(row), 0.0) for row in rng.standard_t(3, (num_sets, n))]
    yield Rate(f"Hodges-Lehmann interval, n = {n}", float(np.mean(hits)), found[1], "=", num_sets)


def bootstrap_coverage(n: int, num_sets: int, seed: int) -> Rate:
    """Coverage of the ideal bootstrap's nominal 95 % interval of a median; promised is what its label says."""
    known = true_median_coverage(n)
    if known is None:
        msg = f"the label of n = {n} states no coverage to check"
        raise ValueError(msg)
    rows = np.random.default_rng(seed).lognormal(0, 0.5, (num_sets, n))
    hits = [_covers(ideal_bootstrap_interval(row), 1.0) for row in rows]
    return Rate(f"bootstrap of the median, nominal 95 %, n = {n}", float(np.mean(hits)), known[0], "=", num_sets)


def family_wise_error(n: int, num_cells: int, num_families: int, seed: int, effect: float = 0.0) -> Rate:
    """Families with at least one false direction, over cells of three arms; the first cells' arms differ by `effect`.

    Starts have a per-round block effect that both arms share. A direction on the truly different half is no error.
    """
    rng = np.random.default_rng(seed)
    num_null = num_cells if effect == 0 else num_cells // 2
    errors = 0
    for _ in range(num_families):
        cells = []
        for number in range(num_cells):
            logs_NA = rng.normal(0, 0.05, (n, 1)) + rng.normal(0, START_SD, (n, 3))
            if number >= num_null:
                logs_NA[:, 1:] += effect
            cells.append(_cell(str(number), logs_NA, deal_orders(n, rng)))
        judged = judge(cells)
        claims = (Verdict.FASTER, Verdict.SLOWER)
        errors += any(int(found.cell) < num_null and found.decision.verdict in claims for found in judged)
    what = f"family-wise error, {2 * num_cells} contrasts, {num_null * 2} null, n = {n}"
    return Rate(what, errors / num_families, 0.05, "<=", num_families)


def order_vetoes(n: int, num_sets: int, seed: int, slope: float = 0.0) -> Rate:
    """How often the order veto fires in cells of three very different arms whose last position is `slope` slower."""
    rng = np.random.default_rng(seed)
    fired = 0
    for _ in range(num_sets):
        positions_NA = deal_orders(n, rng)
        logs_NA = rng.normal(0, START_SD, (n, 3)) + [0, 0.5, 1.0] + slope * (positions_NA == 2)
        fired += order_effect(np.exp(logs_NA), positions_NA).veto
    what = f"order veto, last position {slope:.0%} slower, n = {n}"
    return Rate(what, fired / num_sets, *_bound(slope == 0, ORDER_VETO_NULL_RATE), num_sets)


def drift_vetoes(n: int, num_sets: int, seed: int, total: float = 0.0) -> Rate:
    """How often the drift veto fires for an arm that rises by `total` over its rounds."""
    rng = np.random.default_rng(seed)
    rounds = np.arange(n)
    trend_N = total * rounds / (n - 1)
    fired = [drift(np.exp(trend_N + noise), rounds).veto for noise in rng.normal(0, START_SD, (num_sets, n))]
    what = f"drift veto, {total:.0%} over the campaign, n = {n}"
    return Rate(what, float(np.mean(fired)), *_bound(total == 0, VETO_P), num_sets)


def unstable_vetoes(n: int, num_sets: int, seed: int, num_slow: int = 0) -> Rate:
    """How often the unstable-start veto fires for an arm with `num_slow` starts 1.6 x slower, the others within 3 %."""
    rng = np.random.default_rng(seed)
    slow_N = np.where(np.arange(n) < num_slow, math.log(1.6), 0.0)
    fired = [unstable_starts(np.exp(slow_N + noise)).veto for noise in rng.normal(0, START_SD, (num_sets, n))]
    # A 3 % start lies 1.25 x above its median with probability below 1e-12: the null rate is 0.
    what = f"unstable-start veto, {num_slow} slow starts, n = {n}"
    return Rate(what, float(np.mean(fired)), *_bound(num_slow < 2, 0.0), num_sets)


def spearman_null(n: int, num_sets: int, seed: int) -> Rate:
    """How often exact Spearman has p < .01 without a trend: at most 1 %."""
    rng = np.random.default_rng(seed)
    tests = [spearman(np.arange(n), row) for row in rng.normal(size=(num_sets, n))]
    share = float(np.mean([test.p < VETO_P for test in tests]))
    return Rate(f"Spearman p < .01 (at any rho, not only beyond {DRIFT_RHO}), n = {n}", share, VETO_P, "<=", num_sets)


def deal_orders(n: int, rng: np.random.Generator) -> IntArray:
    """Positions [N, A] of three arms: every order equally often, dealt at random."""
    orders_NP = np.array(ORDERS_K3)[rng.permutation(np.arange(n) % len(ORDERS_K3))]
    return np.argsort(orders_NP, axis=1)


def all_rates(data_sets: int, families: int, seed: int) -> Iterator[Rate]:
    """Every simulation, in the order printed."""
    for n in (6, 7, 8, 10, 12, 16, 18, 20):
        yield from interval_levels(n, data_sets, seed + n)
    for n in (6, 7, 8, 10, 12, 16, 18, 20):
        yield bootstrap_coverage(n, data_sets, seed + n)
    for n, num_cells in ((10, 12), (12, 6), (12, 12), (18, 12)):
        yield family_wise_error(n, num_cells, families, seed + n)
        yield family_wise_error(n, num_cells, families, seed + n, effect=0.10)
    for n in (6, 12, 18):
        yield order_vetoes(n, data_sets // 4, seed + n)
        yield drift_vetoes(n, data_sets // 4, seed + n)
        yield unstable_vetoes(n, data_sets // 4, seed + n)
    for n in (12, 18):
        yield spearman_null(n, data_sets // 4, seed + n)
        yield order_vetoes(n, data_sets // 4, seed + n, slope=0.10)
        yield drift_vetoes(n, data_sets // 4, seed + n, total=0.20)
        yield unstable_vetoes(n, data_sets // 4, seed + n, num_slow=3)


def _covers(interval: object, truth: float) -> bool:
    lo, hi = getattr(interval, "lo", None), getattr(interval, "hi", None)
    return lo is not None and hi is not None and bool(lo <= truth <= hi)


def _bound(null: bool, null_rate: float) -> tuple[float, str]:
    """A veto fires at most at its null rate, and in at least 95 % of the data sets where its cause was planted."""
    return (null_rate, "<=") if null else (0.95, ">=")


def _cell(name: str, logs_NA: FloatArray, positions_NA: IntArray) -> CellRounds:
    return CellRounds(name, ("reference", "b", "c"), "reference", np.exp(logs_NA), positions_NA)


def main() -> None:
    """Run every simulation and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-sets", type=int, default=20_000, help="data sets per rate (a quarter for vetoes)")
    parser.add_argument("--families", type=int, default=2_000, help="families per family-wise error rate")
    parser.add_argument("--seed", type=int, default=20_261_130)
    options = parser.parse_args()
    print("| simulated | data sets | found | promised | 3 s.e. | holds |")
    print("|---|--:|--:|--:|--:|:-:|")
    for rate in all_rates(options.data_sets, options.families, options.seed):
        promised = f"{rate.kind} {rate.promised:.4f}"
        holds = "yes" if rate.holds else "NO"
        print(f"| {rate.what} | {rate.num_sets} | {rate.found:.4f} | {promised} | {rate.margin:.4f} | {holds} |")


if __name__ == "__main__":
    main()
