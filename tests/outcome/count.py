"""count.py REPORT LOG: the outcome of a run of ctest, counted by test case. ./dev test calls it.

REPORT is ctest's JUnit file. LOG is its LastTest.log, since only that has all output of the tests.
It prints `PASSED FAILED SKIPPED`, then a line for each test case that was skipped, with its reason.
A skip that no line of tests/skips.txt allows is a failure.

A ctest that says how many test cases it has run (doctest's summary, tests/python/run.py) counts as
so many; any other counts as one.
"""

import re
import sys
import xml.etree.ElementTree as xml
from fnmatch import fnmatchcase
from pathlib import Path

SKIPS = Path(__file__).parent.parent / "skips.txt"
TESTING = re.compile(r"^\d+/\d+ Testing: (.*)$")
CASES = re.compile(r"(?:\[doctest\] test cases: +|cases: )(\d+)(?: \| +\d+ passed \| +(\d+) failed)?")


def allowed_skips(text):
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def printed(log):
    """The lines that each ctest has printed, by its name."""
    lines, name = {}, None
    for line in log.splitlines():
        begins = TESTING.match(line)
        if begins:
            name = begins[1]
            lines[name] = []
        elif name is not None:
            lines[name].append(line)
    return lines


def cases_of(lines):
    """How many test cases it ran, and how many of them failed."""
    for line in reversed(lines):
        said = CASES.match(line)
        if said:
            return int(said[1]), int(said[2] or 0)
    return 1, 0


def count(report, log, allowed):
    """passed, failed, and a line for each skip; one that is not allowed is among the failed."""
    passed = failed = 0
    skips = []
    output = printed(log)
    for test in xml.fromstring(report).iter("testcase"):
        name = test.get("name")
        cases, bad = cases_of(output.get(name, []))
        reason = test.find("skipped")
        if test.get("status") == "run":
            passed += cases
        elif reason is None or not reason.get("message", "").startswith("SKIP_"):
            # It failed, or could not be run at all.
            failed += max(bad, 1)
            passed += cases - max(bad, 1)
        else:
            said = [line[len("skipped: "):] for line in output.get(name, [])
                    if line.startswith("skipped: ")]
            said = [f"{name}: {one}" for one in said or ["it gives no reason"]]
            passed += max(cases - len(said), 0)
            refused = [one for one in said if not any(fnmatchcase(one, glob) for glob in allowed)]
            failed += len(refused)
            skips += [one + " (not in tests/skips.txt: a failure)" if one in refused else one
                      for one in said]
    return passed, failed, skips


def main(report, log):
    # Where no test was to be run, ctest writes neither.
    report, log = (Path(one).read_text(errors="replace") if Path(one).exists() else ""
                   for one in (report, log))
    passed, failed, skips = count(report or "<testsuite/>", log, allowed_skips(SKIPS.read_text()))
    refused = sum(one.endswith("a failure)") for one in skips)
    print(passed, failed, len(skips) - refused)
    for line in skips:
        print(line)


if __name__ == "__main__":
    main(*sys.argv[1:])
