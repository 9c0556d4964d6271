"""The Python code in docs/python.md does what the page says."""

import os
import re
import subprocess
import sys
import unittest

from support import DAEMON, HERE, Folder, needs

PAGE = HERE.parent.parent / "docs" / "python.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


@needs("PIL")
class Page(Folder):
    def setUp(self):
        super().setUp()
        from PIL import Image
        for i in range(24):
            folder = self.folder / "pictures" / ("cat" if i % 3 else "dog")
            folder.mkdir(parents=True, exist_ok=True)
            Image.linear_gradient("L").convert("RGB").rotate(7 * i).save(folder / f"{i:02}.jpg")
        os.environ.update(BATCHFLOW_IDLE_S="1", BATCHFLOW_DAEMON=DAEMON)

    def run_block(self, code):
        script = self.folder / "script.py"
        script.write_text(code)
        done = subprocess.run([sys.executable, str(script)], cwd=self.folder, timeout=120,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, f"{code}\n{done.stdout.decode()}")

    def test_blocks(self):
        self.assertGreater(len(BLOCKS), 4)
        for code in BLOCKS:
            if "torch" not in code:
                self.run_block(code)

    @needs("torchvision")
    def test_blocks_with_torch(self):
        blocks = [code for code in BLOCKS if "torch" in code]
        self.assertTrue(blocks)
        for code in blocks:
            self.run_block(code)

    def test_canary_a_block_that_fails_is_seen(self):
        with self.assertRaises(AssertionError):
            self.run_block("assert False")


if __name__ == "__main__":
    unittest.main()
