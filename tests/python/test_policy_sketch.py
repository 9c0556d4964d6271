"""Eviction policies that are sketched in Python, in `batchflow-sim cache`."""

import json
import os
import subprocess
import unittest

from support import Folder

SIM = os.environ["BATCHFLOW_SIM"]
LRU = '''
class Policy:
    """Least recently used, in an ordered dict."""

    def __init__(self, items, capacity, seed):
        self.queue = {}

    def hit(self, item):
        self.queue[item] = self.queue.pop(item)

    def inserted(self, item, slots):
        self.queue[item] = slots

    def removed(self, item):
        del self.queue[item]

    def victim(self):
        return next(iter(self.queue), None)
'''


class Sketches(Folder):
    def sim(self, *words, code=0):
        done = subprocess.run([SIM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=120)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def sketch(self, text, name="my-lru.py"):
        file = self.folder / name
        file.write_text(text)
        return str(file)

    def test_a_sketch_misses_what_the_same_policy_misses(self):
        for trace in ("gen:zipf,n=500,requests=8000", "gen:perm,n=300,epochs=5"):
            done = self.sim("cache", trace, "--plugin", self.sketch(LRU), "--policy", "lru,my-lru",
                            "--size", "10%,40%", "--json")
            self.assertIn("my-lru is a sketch in Python: some hundred times slower", done.stderr)
            runs = json.loads(done.stdout)["runs"]
            misses = {}
            for run in runs:
                misses.setdefault(run["policy"].split("@")[0], []).append(run["misses"])
            self.assertEqual(misses["my-lru"], misses["lru"])
            self.assertGreater(min(misses["lru"]), 0)

    def test_a_sketch_that_raises_is_an_error_in_its_words(self):
        broken = LRU.replace("return next(iter(self.queue), None)", "return self.nothing")
        done = self.sim("cache", "gen:perm,n=100,epochs=3", f"--plugin={self.sketch(broken)}",
                        "--policy", "my-lru", "--size", "10%", code=1)
        self.assertIn("AttributeError: 'Policy' object has no attribute 'nothing'", done.stderr)

    def test_what_is_no_sketch_is_refused(self):
        for text, why in (("x = 1\n", "it has no class Policy"),
                          ("import nowhere_at_all\n", "No module named 'nowhere_at_all'")):
            done = self.sim("cache", "gen:perm,n=100,epochs=3", "--plugin", self.sketch(text),
                            "--policy", "lru", "--size", "10%", code=2)
            self.assertIn(why, done.stderr)


if __name__ == "__main__":
    unittest.main()
