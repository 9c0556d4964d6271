"""The subjects of commits, as CONTRIBUTING.md asks for them: at most 72 characters, in the imperative,
without a full stop. Those before this test are not looked at."""
import shutil
import subprocess
import unittest
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
SINCE = "2026-11-24T12:00:00Z"  # commits before are not looked at
MOST = 72
NO_IMPERATIVE = ("ing", "ed", "s")
IMPERATIVE = {"address", "assess", "bypass", "compress", "cross", "discuss", "dismiss", "express", "focus", "guess",
              "miss", "pass", "press", "process", "stress", "suppress", "toss", "bring", "embed", "feed", "need", "ping", "proceed", "ring", "seed", "shed", "speed", "string", "swing"}


def wrong_with(subject):
    """What is wrong with it; empty: nothing."""
    if len(subject) > MOST:
        return f"{len(subject)} characters; write {MOST} at most, and the rest into the body"
    if subject.endswith("."):
        return "a full stop at its end"
    verb = subject.split(" ")[0].lower()
    if verb.endswith(NO_IMPERATIVE) and verb not in IMPERATIVE:
        return f"'{verb}' is no imperative; write what the commit does, as 'Refuse edited labels'"
    return ""


class Subjects(unittest.TestCase):
    def test_of_new_commits(self):
        if not shutil.which("git") or not (TREE / ".git").exists():
            self.skipTest("no history here")
        git = subprocess.run(["git", "-C", str(TREE), "-c", f"safe.directory={TREE}", "log",
                              "--format=%h %s", f"--since={SINCE}"],
                             capture_output=True, text=True, check=True)
        wrong = [f"{line}: {why}" for line in git.stdout.splitlines()
                 if (why := wrong_with(line.split(" ", 1)[1]))]
        self.assertEqual(wrong, [])

    def test_what_it_refuses(self):
        self.assertEqual(wrong_with("Refuse edited labels"), "")
        self.assertEqual(wrong_with("Seed each job by itself"), "")
        self.assertIn("73 characters", wrong_with("A" * 73))
        self.assertIn("'refused' is no imperative", wrong_with("Refused edited labels"))
        self.assertIn("'adding' is no imperative", wrong_with("Adding labels"))
        self.assertIn("'adds' is no imperative", wrong_with("Adds a file"))
        self.assertIn("'fixes' is no imperative", wrong_with("Fixes it"))
        self.assertEqual(wrong_with("Pass labels on"), "")
        self.assertIn("full stop", wrong_with("Refuse edited labels."))


if __name__ == "__main__":
    unittest.main()
