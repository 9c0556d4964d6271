"""The package in the grammar of the oldest Python for which it is made."""

import ast
import re
import unittest
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "python"


def oldest_python():
    text = (PACKAGE / "pyproject.toml").read_text()
    return tuple(map(int, re.search(r'^requires-python = ">=(\d+)\.(\d+)"$', text, re.M).groups()))


class Grammar(unittest.TestCase):
    def test_each_file_can_be_read_by_the_oldest_python(self):
        files = sorted((PACKAGE / "batchflow").rglob("*.py"))
        self.assertGreater(len(files), 20)
        for file in files:
            with self.subTest(file=file.name):
                ast.parse(file.read_text(), str(file), feature_version=oldest_python())

    def test_what_only_later_ones_can_read_is_noticed(self):
        self.assertEqual(oldest_python(), (3, 9))
        ast.parse("match one:\n    case 1: pass")
        with self.assertRaises(SyntaxError):
            ast.parse("match one:\n    case 1: pass", feature_version=oldest_python())


if __name__ == "__main__":
    unittest.main()
