"""The version numbers on docs/compatibility.md are those in the sources."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "compatibility.md"
TABLE = re.compile(r"^## What carries a version\n+(.+?)\n\n", re.MULTILINE | re.DOTALL)

# By how a row begins: for each number in its second cell, where the sources have it.
NUMBERS = {
    "protocol between service and jobs": {
        r"^(\d+) ": [("runtime/protocol/records.h", r"kProtocolVersion = (\d+);")]},
    "protocol between the nodes of a cluster": {
        r"^(\d+) ": [("runtime/service/service_version.cpp", r"kNodeProtocol = (\d+);")]},
    "C interface of the client library": {
        r"`BF_ABI_VERSION` (\d+)": [("runtime/client/batchflow.h", r"#define BF_ABI_VERSION (\d+)"),
                                    ("python/batchflow/library.py", r"^ABI_VERSION = (\d+)")],
        r"`libbatchflow_client\.so\.(\d+)`": [
            ("runtime/client/CMakeLists.txt", r"batchflow_client VERSION .* SOVERSION (\d+)")],
        r"`BATCHFLOW_(\d+)`": [("runtime/client/exports.map", r"^BATCHFLOW_(\d+) \{")]},
    "interface of plugin policies": {
        r"`BF_POLICY_VERSION` (\d+)": [
            ("policies/plugin/batchflow_policy.h", r"\bBF_POLICY_VERSION = (\d+),")]},
    "interface of plugin steps": {
        r"`BF_STEP_ABI_VERSION` (\d+)": [
            ("runtime/step/batchflow_step.h", r"#define BF_STEP_ABI_VERSION (\d+)")]},
    "a job's state": {
        r'`"v": (\d+)`': [("core/order/position_json.cpp", r"kJsonFormat = (\d+);"),
                          ("python/batchflow/local.py", r'"v": (\d+)')]},
    "`promises` in the state folder": {
        r"^(\d+),": [("core/log/promise_log.h", r"kVersion = (\d+);")],
        r"positions of format (\d+)$": [
            ("core/order/position_bytes.cpp", r"kBytesFormat = (\d+);")]},
    "`journal` in the state folder": {
        r"^(\d+)$": [("core/log/journal.h", r"kVersion = (\d+);")]},
    "exemplars of a feed": {
        r"^(\d+)$": [("runtime/feeds/exemplar_file.cpp", r"kExemplarsVersion = (\d+);")]},
    "log of a feed": {
        r"^(\d+);": [("runtime/feeds/feed_log.cpp", r"kVersion = (\d+);"),
                     ("runtime/feeds/feed_settings.cpp", r"kSettingsVersion = (\d+);")],
        r"Kafka's settings has (\d+),": [
            ("runtime/feeds/feed_settings.cpp", r"kSettingsVersionOfKafka = (\d+);")]},
    "index of a dataset": {
        r"^(\d+)$": [("runtime/sources/index_file.cpp", r"kVersion = (\d+);")]},
    "receipts": {
        r'`"form": (\d+)`': [("python/batchflow/receipts.py", r"^FORM = (\d+)"),
                             ("tools/verify_receipts.py", r"^FORM = (\d+)")]},
    "recorded scores": {
        r"^(\d+)$": [("programs/input/recorded_scores.cpp", r"kVersion = (\d+);"),
                     ("python/batchflow/score_recording.py", r"# batchflow-scores (\d+) samples")]},
    "packed records": {
        r"^(\d+)$": [("runtime/sources/packed.h", r"kPackedVersion = (\d+);")]},
}


def rows(text):
    """The first two cells of each row, without the head of the table."""
    lines = TABLE.search(text)[1].splitlines()[2:]
    return [[cell.strip() for cell in line.split("|")[1:3]] for line in lines]


def numbers_of_row(what):
    return next((NUMBERS[begin] for begin in NUMBERS if what.startswith(begin)), None)


def problems(text):
    found = [f"no row begins with '{begin}'" for begin in NUMBERS
             if not any(what.startswith(begin) for what, _ in rows(text))]
    for what, said in rows(text):
        numbers = numbers_of_row(what)
        if numbers is None:
            found.append(f"'{what}': say in NUMBERS where the sources have its number")
            continue
        for pattern, sources in numbers.items():
            number = re.search(pattern, said)
            if number is None:
                found.append(f"'{what}': '{said}' has no number as {pattern}")
                continue
            for file, constant in sources:
                there = re.findall(constant, (ROOT / file).read_text(), re.MULTILINE)
                if set(there) != {number[1]}:
                    found.append(f"'{what}' is {number[1]} on the page and "
                                 f"{', '.join(there) or 'not found'} in {file}")
    return found


class Versions(unittest.TestCase):
    def setUp(self):
        self.text = PAGE.read_text()

    def test_are_those_of_the_sources(self):
        self.assertGreater(len(rows(self.text)), 10)
        self.assertEqual(problems(self.text), [])

    def test_another_number_is_found(self):
        for what, said in rows(self.text):
            for pattern in numbers_of_row(what):
                with self.subTest(row=what, number=pattern):
                    number = re.search(pattern, said)
                    other = f"{said[:number.start(1)]}{int(number[1]) + 1}{said[number.end(1):]}"
                    row, changed = f"| {what} | {said} |", f"| {what} | {other} |"
                    self.assertIn(row, self.text)
                    self.assertEqual(len(problems(self.text.replace(row, changed))),
                                     len(numbers_of_row(what)[pattern]))

    def test_a_row_without_sources_is_found(self):
        row = "| index of a dataset |"
        self.assertIn(row, self.text)
        self.assertEqual(len(problems(self.text.replace(row, "| table of a dataset |"))), 2)


if __name__ == "__main__":
    unittest.main()
