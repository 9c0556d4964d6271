"""How `./dev bench stream` compares a disturbed job with one that is not."""

import sys
import unittest

from support import HERE

ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT / "tools" / "bench"), str(ROOT / "tools" / "bench" / "stream")]


class Compared(unittest.TestCase):
    def test_what_is_lost_doubled_or_out_of_turn_is_counted(self):
        from killed import Comparison
        for disturbed, found in (([7, 3, 5, 3], (0, 0, 0)), ([3, 7, 5, 3], (0, 0, 1)),
                                 ([7, 3, 5], (1, 0, 1)), ([7, 3, 5, 3, 3], (0, 1, 1)),
                                 ([7, 7, 5, 3], (1, 1, 1)), ([], (4, 0, 1))):
            self.assertEqual(Comparison.between([7, 3, 5, 3], disturbed), (4, *found))


if __name__ == "__main__":
    unittest.main()
