"""Advice on the number of iterations."""

from __future__ import annotations

import numpy as np
import pytest

from ep_campaign.stats.iterations import (
    VarianceComponents,
    advised_iterations,
    standard_error_penalty,
    variance_components,
)

NOISY = VarianceComponents(start_sd=0.02, iteration_sd=0.05)
STEADY = VarianceComponents(start_sd=0.005, iteration_sd=0.05)


def test_advice() -> None:
    """90 s a start, 5 ms an iteration, 2 % and 5 %: sqrt(18,000 x pi/2 x 6.25) = 420."""
    assert advised_iterations(90, 0.005, NOISY) == 420
    assert advised_iterations(1e-6, 1.0, NOISY) == 1


def test_penalty() -> None:
    """100 iterations cost 2.7 % in standard error where starts scatter by 2 %, 47 % where they scatter by .5 %."""
    assert standard_error_penalty(100, 90, 0.005, NOISY) == pytest.approx(1.027, abs=5e-4)
    assert standard_error_penalty(100, 90, 0.005, STEADY) == pytest.approx(1.47, abs=5e-3)
    assert standard_error_penalty(420, 90, 0.005, NOISY) == 1.0


def test_components_are_recovered() -> None:
    """Planted standard deviations of 2 % and 5 % come back within 5 % of themselves from 20,000 starts."""
    rng = np.random.default_rng(5)
    samples_NI = np.exp(rng.normal(0, 0.02, (20_000, 1)) + rng.normal(0, 0.05, (20_000, 50)))
    found = variance_components(samples_NI)

    assert found.start_sd == pytest.approx(0.02, rel=0.05)
    assert found.iteration_sd == pytest.approx(0.05, rel=0.05)


def test_starts_that_do_not_differ() -> None:
    """Where iterations explain all of the spread there is no finite advice."""
    found = variance_components([[1.0, 2.0, 4.0], [4.0, 2.0, 1.0]])

    assert found.start_sd == 0
    assert advised_iterations(90, 0.005, found) is None


def test_refusals() -> None:
    """Costs of zero, one start, no duration and a penalty without advice are refused."""
    with pytest.raises(ValueError, match="expected both above 0"):
        advised_iterations(0, 0.005, NOISY)
    with pytest.raises(ValueError, match="starts >= 2"):
        variance_components([[1.0, 2.0]])
    with pytest.raises(ValueError, match="not finite and above zero"):
        variance_components([[1.0, 2.0], [1.0, 0.0]])
    with pytest.raises(ValueError, match="0 iterations"):
        standard_error_penalty(0, 90, 0.005, NOISY)
    with pytest.raises(ValueError, match="start_sd 0"):
        standard_error_penalty(100, 90, 0.005, VarianceComponents(0.0, 0.05))
