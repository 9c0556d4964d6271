"""Each ctest that a page names is there, and so is each that a command of a page chooses."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md",
         ROOT / "tests" / "README.md"]

NAMED = re.compile(r"`([a-z]+)\.([a-z_-]+)`")
CHOSEN = re.compile(r"test -R ([\w.]+)")
FILES = re.compile(r"--source-file='\*(\w+)\*'")


def tests():
    """FOLDER.SUBJECT of each test file, and what CMake names beside these."""
    found = {f"{file.parent.name}.{file.name.removesuffix('_test.cpp')}"
             for file in (ROOT / "tests").rglob("*_test.cpp")}
    found |= {f"python.{file.stem.removeprefix('test_')}"
              for file in (ROOT / "tests/python").glob("test_*.py")}
    for file in [*(ROOT / "tests").rglob("CMakeLists.txt"), ROOT / "tools" / "CMakeLists.txt"]:
        found |= set(re.findall(r"add_test\(NAME ([\w.-]+)", file.read_text()))
    return found | {"policies.two_processes", "engine.two_processes"}


def other_names():
    """What looks like a ctest and is none: failpoints, and keys and fields."""
    found = set()
    for file in (ROOT / "runtime").rglob("*.cpp"):
        found |= set(re.findall(r'BF_FAILPOINT\w*\("([\w.]+)"', file.read_text()))
    keys = re.findall(r"^(\w+):", (ROOT / "configs/engine/default.yaml").read_text(), re.MULTILINE)
    return found | {f"engine.{key}" for key in keys} | {"storage.threads", "batch.marks"}


def missing(text, known, others):
    folders = {name.partition(".")[0] for name in known}
    files = {name.partition(".")[2] for name in known}
    named = [".".join(match) for match in NAMED.findall(text)
             if match[0] in folders and match[1] not in ("h", "cpp", "py")]
    return ([name for name in named if name not in known and name not in others] +
            [part for part in CHOSEN.findall(text)
             if not any(re.search(part, name) for name in known)] +
            [part for part in FILES.findall(text) if not any(part in name for name in files)])


class NamedTests(unittest.TestCase):
    def test_are_there(self):
        known, others = tests(), other_names()
        self.assertGreater(len(known), 200)
        self.assertGreater(len(others), 50)
        wrong = {str(page.relative_to(ROOT)): found for page in PAGES
                 if (found := missing(page.read_text(), known, others))}
        self.assertEqual(wrong, {})

    def test_a_wrong_name_is_found(self):
        known, others = tests(), other_names()
        for text in ("`core.journal`", "`./dev test -R core.journal`", "--source-file='*journal*'", "`protocol.map`"):
            self.assertEqual(missing(text, known, others), [], text)
        for text in ("`core.no_journal`", "`./dev test -R core.no_journal`", "--source-file='*no_journal*'"):
            self.assertEqual(len(missing(text, known, others)), 1, text)


if __name__ == "__main__":
    unittest.main()
