"""run.py FILE [CLASS[.TEST]]: the tests of a file. Exits 77 when some were skipped, none failed."""

import sys
import unittest
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    name = ".".join([Path(sys.argv[1]).stem, *sys.argv[2:]])
    suite = unittest.defaultTestLoader.loadTestsFromName(name)
    if suite.countTestCases() == 0:
        sys.exit(f"no tests in {sys.argv[1]}")
    outcome = unittest.TextTestRunner(verbosity=2).run(suite)
    for test, reason in outcome.skipped:
        print(f"skipped: {test}: {reason}")
    sys.exit(1 if not outcome.wasSuccessful() else 77 if outcome.skipped else 0)
