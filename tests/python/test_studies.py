"""The fluid bound of `./dev bench studies`, against what was worked out by hand."""

import sys
import unittest

from support import HERE, needs

ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT / "tools" / "bench"), str(ROOT / "tools" / "bench" / "studies")]


def scenario(**settings):
    made = {
        "cluster": {"nodes": [{"name": "n", "cores": 2, "gpus": 2, "cache": "300kb"}],
                    "store": {"bytes_per_s": "1mb"}},
        "datasets": [{"name": "d", "samples": 1000, "bytes": "1kb"}],
        "pipelines": [{"name": "p", "steps": [{"name": "decode", "cost": "8ms", "output": "3kb"},
                                              {"name": "crop", "random": True, "cost": "2ms"}]}],
        "jobs": [{"name": "a", "dataset": "d", "pipeline": "p", "batch": 10, "step": "10ms",
                  "epochs": 4},
                 {"name": "b", "dataset": "d", "pipeline": "p", "batch": 10, "step": "20ms",
                  "epochs": 2}],
    }
    made.update(settings)
    return made


@needs("scipy")
@needs("yaml")
class Bound(unittest.TestCase):
    def setUp(self):
        global bound
        import bound

    def test_workers_limit(self):
        # 4,000 preparations of 10 ms. A tenth is kept decoded, which saves 300 times 8 ms.
        self.assertAlmostEqual(bound.seconds(scenario(), True), (40 - 2.4) / 2, places=6)
        # Alone there are 6,000, of which a tenth of 5,000 are made from what is decoded.
        self.assertAlmostEqual(bound.seconds(scenario(), False), (60 - 4) / 2, places=6)
        self.assertEqual(bound.samples(scenario()), 6000)

    def test_the_store_limits(self):
        made = scenario(cluster={"nodes": [{"cores": 1000, "cache": "300kb"}],
                                 "store": {"bytes_per_s": "100kb"}})
        # 4 MB, of which three tenths are kept as they are stored after their first read.
        self.assertAlmostEqual(bound.seconds(made, True), (4 - 0.9) * 10, places=6)
        self.assertAlmostEqual(bound.seconds(made, False), (6 - 1.5) * 10, places=6)

    def test_gpus_limit(self):
        made = scenario(cluster={"nodes": [{"cores": 1000, "cache": "1gb"}],
                                 "store": {"bytes_per_s": "1gb"}})
        self.assertAlmostEqual(bound.seconds(made, True), 4.0, places=6)

    def test_other_kinds_have_no_bound(self):
        two = [{"cores": 2, "cache": "1kb"}] * 2
        self.assertIsNone(bound.seconds(scenario(cluster={"nodes": two}), True))
        weighted = scenario()
        weighted["jobs"][0]["order"] = "weighted"
        self.assertIsNone(bound.seconds(weighted, True))

    def test_what_a_study_sets_holds(self):
        study = {"scenario": "four-jobs", "set": {"jobs.0.epochs": 1}}
        made = bound.scenario_of(ROOT / "configs", study, {"cluster.nodes.0.cores": "3"})
        self.assertEqual((made["jobs"][0]["epochs"], made["cluster"]["nodes"][0]["cores"]), (1, 3))
        self.assertEqual(bound.quantity(made["cluster"]["store"]["bytes_per_s"]), 530e6)


if __name__ == "__main__":
    unittest.main()
