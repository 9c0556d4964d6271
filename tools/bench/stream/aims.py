"""What the figures of `./dev bench stream` should come to."""

from __future__ import annotations

from typing import Any

RECORDS_PER_S = 200_000  # that a feed on one core takes
LAG_PER_S = RECORDS_PER_S // 2  # so many come while it is measured
LAG_P99_MS = 50  # then, until a job has a record
DRAWS_PER_S = 1_000_000  # of exemplars, decided on one core


def missed(found: dict[str, Any]) -> list[str]:
    """In words, each aim that the figures do not reach."""
    problems = []
    if not found["per_s"] >= RECORDS_PER_S:
        problems.append(f"a feed takes {found['per_s']:,.0f} records a second; "
                        f"the aim is {RECORDS_PER_S:,}")
    lag = found["delivered"]["p99_ms"]
    if not lag < LAG_P99_MS:
        problems.append(f"a record reaches a job within {lag:.2f} ms (p99) at {LAG_PER_S:,} a second; "
                        f"the aim is less than {LAG_P99_MS}")
    if "draws_per_s" not in found:
        problems.append("exemplars that are drawn a second were not measured, as bench_core is not built")
    elif not found["draws_per_s"] >= DRAWS_PER_S:
        problems.append(f"{found['draws_per_s']:,.0f} exemplars are drawn a second; "
                        f"the aim is {DRAWS_PER_S:,}")
    return problems
