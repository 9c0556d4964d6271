"""The benchmark beside other loaders: that it runs, and that its checks notice what they are there
to notice. The whole of it is `./dev bench peers`."""

import json
import os
import subprocess
import sys
import unittest

from support import HERE, Folder, needs

PEERS = HERE.parent.parent / "tools" / "bench" / "peers"
sys.path[:0] = [str(PEERS), str(PEERS.parent)]


@needs("numpy")
@needs("PIL")
class Peers(Folder):
    def test_a_run(self):
        out = self.folder / "out.json"
        page, picture = self.folder / "page.md", self.folder / "plot.svg"
        page.write_text("before\n<!-- measured -->\nold\n<!-- end of what was measured -->\nafter\n")
        done = subprocess.run(
            [sys.executable, str(PEERS / "main.py"), "--peers", "batchflow_,pytorch", "--rounds", "1",
             "--pictures", "48", "--jobs", "2", "--batch", "8", "--types", "float32", "--no-paced",
             "--json", str(out), "--write", str(page), "--plot", str(picture)],
            env={**os.environ, "BATCHFLOW_BUILD": str(self.folder)}, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=300, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        ours, *others = json.loads(out.read_text())["results"]
        (run,) = ours["runs"]
        self.assertEqual([run[name] for name in ("samples", "epochs", "missing", "repeated",
                                                 "unknown")], [96, 2, 0, 0, 0])
        for other in others:  # where PyTorch is installed
            self.assertEqual(other["runs"][0]["samples"], 96, done.stdout)
        self.assertIn("| BatchFlow |", page.read_text())
        self.assertNotIn("old", page.read_text())
        self.assertIn("<polyline", picture.read_text())

    def test_what_is_missing_twice_or_of_another_shape_is_counted(self):
        import consumer
        import numpy
        options = {"float": False, "sleep_s": 0, "pictures": 4}
        job = consumer.Job(options)
        pictures = numpy.zeros((3, 3, 224, 224), numpy.uint8)
        job.take([0, 1, 1], pictures)
        self.assertEqual(job.visited(), {"missing": 2, "repeated": 1, "unknown": 0})
        job.take([2, 9, 3], pictures)
        self.assertEqual(job.visited(), {"missing": 0, "repeated": 1, "unknown": 1})
        self.assertEqual(job._problem, "")
        job.take([0, 1, 2], pictures.astype(numpy.float32))
        self.assertIn("float32 (3, 3, 224, 224), not uint8", job._problem)


if __name__ == "__main__":
    unittest.main()
