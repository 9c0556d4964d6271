"""Whether two means are the same within a margin: two one-sided t-tests (TOST). They are Welch's, or
those of pairs, where the runs of one seed differ in one thing alone.

A difference that is not significant would prove nothing: too few runs show none either. Here it is
the other way round: with too few runs, the means cannot be shown to be the same.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Sequence

LEVEL = 0.05


def _mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and the square of its standard error."""
    mean = math.fsum(values) / len(values)
    return mean, math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1) / len(values)


@dataclasses.dataclass
class Comparison:
    difference: float
    standard_error: float
    p: float  # the chance that means further apart than the margin look like these
    low: float  # the interval of 90 % of the difference
    high: float
    power: float  # the chance to show that equal means are equal, with this error

    @property
    def equivalent(self) -> bool:
        return self.p < LEVEL


def compare(values: Sequence[float], reference: Sequence[float], margin: float) -> Comparison:
    mean, square = _mean_and_error(values)
    reference_mean, reference_square = _mean_and_error(reference)
    both = square + reference_square
    freedom = 0.0 if both == 0 else both**2 / (square**2 / (len(values) - 1) +
                                               reference_square**2 / (len(reference) - 1))
    return _within(mean - reference_mean, both, freedom, margin)


def compare_pairs(values: Sequence[float], reference: Sequence[float],
                  margin: float) -> Comparison:
    """`values` and `reference` have those of the same seed at the same index."""
    difference, square = _mean_and_error([a - b for a, b in zip(values, reference, strict=True)])
    return _within(difference, square, len(values) - 1, margin)


def _within(difference: float, square: float, freedom: float, margin: float) -> Comparison:
    """`square` is that of the difference's standard error."""
    from scipy import stats  # scikit-learn brings it
    if square == 0:
        apart = abs(difference) < margin
        return Comparison(difference, 0.0, 0.0 if apart else 1.0, difference, difference, 1.0)
    error = math.sqrt(square)
    p = max(stats.t.sf((difference + margin) / error, freedom),
            stats.t.cdf((difference - margin) / error, freedom))
    reach = stats.t.isf(LEVEL, freedom)
    power = max(0.0, 2 * stats.t.cdf(margin / error - reach, freedom) - 1)
    return Comparison(difference, error, float(p), difference - reach * error,
                      difference + reach * error, float(power))
