"""run.py FILE [CLASS[.TEST]]: the tests of a file. Exits 77 when some were skipped, none failed."""

import sys
import unittest
from pathlib import Path


def failed(outcome):
    """How many test cases: one of several subtests fails its case once."""
    tests = [test for test, _ in outcome.failures + outcome.errors]
    tests += outcome.unexpectedSuccesses
    return len({getattr(test, "test_case", test).id() for test in tests})


if __name__ == "__main__":
    sys.path[0:0] = [str(Path(file).parent) for file in (sys.argv[1], __file__)]
    name = ".".join([Path(sys.argv[1]).stem, *sys.argv[2:]])
    suite = unittest.defaultTestLoader.loadTestsFromName(name)
    if suite.countTestCases() == 0:
        sys.exit(f"no tests in {sys.argv[1]}")
    cases = suite.countTestCases()
    outcome = unittest.TextTestRunner(verbosity=2).run(suite)
    for test, reason in outcome.skipped:
        print(f"skipped: {test}: {reason}")
    print(f"cases: {cases} | {cases - failed(outcome)} passed | {failed(outcome)} failed")
    sys.exit(1 if not outcome.wasSuccessful() else 77 if outcome.skipped else 0)
