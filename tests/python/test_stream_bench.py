"""How `./dev bench stream` compares a disturbed job with one that is not, and which aims it misses."""

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


class Aims(unittest.TestCase):
    REACHED = {"per_s": 200_000.0, "delivered": {"p99_ms": 49.9}, "draws_per_s": 1e6}

    def missed(self, **figures):
        from aims import missed
        return missed({**self.REACHED, **figures})

    def test_what_is_reached_is_not_said(self):
        self.assertEqual(self.missed(), [])

    def test_each_figure_that_misses_its_aim_is_said(self):
        for figures, says in (({"per_s": 199_999.0}, "199,999 records a second; the aim is 200,000"),
                              ({"delivered": {"p99_ms": 50.0}}, "50.00 ms (p99) at 100,000 a second; the aim is less than 50"),
                              ({"delivered": {"p99_ms": float("nan")}}, "nan ms (p99)"),
                              ({"draws_per_s": 999_999.0}, "999,999 exemplars are drawn a second")):
            with self.subTest(says):
                [said] = self.missed(**figures)
                self.assertIn(says, said)
        self.assertEqual(len(self.missed(per_s=1.0, delivered={"p99_ms": 51.0}, draws_per_s=1.0)), 3)

    def test_the_lag_at_another_rate_decides_nothing(self):
        self.assertEqual(self.missed(delivered_at_half={"p99_ms": 133.0}), [])

    def test_what_was_not_measured_is_not_reached(self):
        from aims import missed
        [said] = missed({name: one for name, one in self.REACHED.items() if name != "draws_per_s"})
        self.assertIn("not measured", said)


if __name__ == "__main__":
    unittest.main()
