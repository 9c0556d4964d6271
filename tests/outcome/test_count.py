"""count.py on reports that are written by hand."""

import unittest

from count import SKIPS, allowed_skips, count


def report(*tests):
    return "<testsuite>" + "".join(
        f'<testcase name="{name}" status="{status}">{inside}</testcase>'
        for name, status, inside in tests) + "</testsuite>"


def log(**printed):
    return "".join(f"1/9 Testing: {name.replace('_', '.', 1)}\nOutput:\n{text}\n<end of output>\n"
                   for name, text in printed.items())


SKIPPED = '<skipped message="SKIP_RETURN_CODE=77"/>'


class Count(unittest.TestCase):
    def test_each_test_case_counts(self):
        report_ = report(("core.lanes", "run", ""), ("python.state", "run", ""),
                         ("live.toys", "run", ""))
        log_ = log(core_lanes="[doctest] test cases:  12 |  12 passed | 0 failed | 90 skipped",
                   python_state="cases: 7\n...", live_toys="done")
        self.assertEqual(count(report_, log_, []), (12 + 7 + 1, 0, []))

    def test_cases_that_failed_and_tests_that_did_not_run(self):
        report_ = report(("core.lanes", "fail", '<failure message=""/>'),
                         ("core.died", "fail", '<failure message=""/>'),
                         ("core.none", "notrun", '<skipped message="Unable to find executable"/>'))
        log_ = log(core_lanes="[doctest] test cases:  12 |  10 passed |  2 failed |  0 skipped",
                   core_died="segmentation fault")
        self.assertEqual(count(report_, log_, []), (10, 2 + 1 + 1, []))

    def test_a_skip_takes_no_other_case_with_it(self):
        report_ = report(("python.loader", "notrun", SKIPPED))
        log_ = log(python_loader="cases: 40\nskipped: a (t.A): torch is not installed for python3")
        self.assertEqual(count(report_, log_, ["python.*: torch is not installed*"]),
                         (39, 0, ["python.loader: a (t.A): torch is not installed for python3"]))

    def test_a_skip_that_is_not_allowed_is_a_failure(self):
        report_ = report(("python.loader", "notrun", SKIPPED), ("docs.readme", "notrun", SKIPPED))
        log_ = log(python_loader="cases: 2\nskipped: a: no torch\nskipped: b: no jax")
        passed, failed, skips = count(report_, log_, ["python.loader: *: no jax"])
        self.assertEqual((passed, failed), (0, 2))
        self.assertEqual(skips, [
            "python.loader: a: no torch (not in tests/skips.txt: a failure)",
            "python.loader: b: no jax",
            "docs.readme: it gives no reason (not in tests/skips.txt: a failure)"])

    def test_torch_is_not_on_the_list(self):
        for reason in ("torch is not installed for /usr/bin/python3",
                       "torchvision is not installed for /usr/bin/python3"):
            skip = '<testsuite><testcase name="python.loader" status="notrun">' + SKIPPED
            skip += "</testcase></testsuite>"
            _, failed, _ = count(skip, log(python_loader=f"cases: 1\nskipped: a: {reason}"),
                                 allowed_skips(SKIPS.read_text()))
            self.assertEqual(failed, 1, reason)


if __name__ == "__main__":
    unittest.main()
