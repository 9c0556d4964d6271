"""Whether two means are the same within a margin: two one-sided t-tests (TOST), Welch's.

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
    from scipy import stats  # scikit-learn brings it
    mean, square = _mean_and_error(values)
    reference_mean, reference_square = _mean_and_error(reference)
    difference, both = mean - reference_mean, square + reference_square
    if both == 0:
        apart = abs(difference) < margin
        return Comparison(difference, 0.0, 0.0 if apart else 1.0, difference, difference, 1.0)
    error = math.sqrt(both)
    freedom = both**2 / (square**2 / (len(values) - 1) +
                         reference_square**2 / (len(reference) - 1))
    p = max(stats.t.sf((difference + margin) / error, freedom),
            stats.t.cdf((difference - margin) / error, freedom))
    reach = stats.t.isf(LEVEL, freedom)
    power = max(0.0, 2 * stats.t.cdf(margin / error - reach, freedom) - 1)
    return Comparison(difference, error, float(p), difference - reach * error,
                      difference + reach * error, float(power))
