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
        for key, value in (("order", "weighted"), ("leaves_after", "10s")):
            made = scenario()
            made["jobs"][0][key] = value
            self.assertIsNone(bound.seconds(made, True))

    def test_nodes_are_one(self):
        half = {"cores": 1, "cache": "150kb"}
        for nodes in ([half, half], [{"count": 2, **half}]):
            made = scenario(cluster={"nodes": nodes, "store": {"bytes_per_s": "1mb"}})
            self.assertAlmostEqual(bound.seconds(made, True), (40 - 2.4) / 2, places=6)

    def test_late_jobs_end_late(self):
        made = scenario(cluster={"nodes": [{"cores": 1000, "cache": "1gb"}]})
        made["jobs"][1].update(arrives="3s", every="2s", count=2)
        # The last begins at 5 s, and has 200 steps of 20 ms.
        self.assertAlmostEqual(bound.seconds(made, True), 9.0, places=6)

    def test_pipelines_share_what_is_stored(self):
        made = scenario(cluster={"nodes": [{"cores": 1000, "cache": "300kb"}],
                                 "store": {"bytes_per_s": "100kb"}})
        made["pipelines"].append({"name": "q", "steps": [{"name": "parse", "cost": "1ms"}]})
        made["jobs"][1]["pipeline"] = "q"
        # At best, all that the second job reads comes to the first, too.
        self.assertAlmostEqual(bound.seconds(made, True), (4 - 0.9) * 10, places=6)
        # Alone they read 6 MB. What is kept is read once.
        self.assertAlmostEqual(bound.seconds(made, False), (6 - 1.5) * 10, places=6)

    def test_pipelines_that_begin_alike_share_what_is_decoded(self):
        made = scenario()
        decode = made["pipelines"][0]["steps"][0]
        made["pipelines"].append(
            {"name": "q", "steps": [decode, {"name": "flip", "random": True, "cost": "4ms"}]})
        made["jobs"][1]["pipeline"] = "q"
        # 4,000 decodings, and 4,000 of 2 ms and 2,000 of 4 ms. A tenth is decoded once.
        self.assertAlmostEqual(bound.seconds(made, True), (32 + 8 + 8 - 2.4) / 2, places=6)

    def test_what_a_study_sets_holds(self):
        study = {"scenario": "four-jobs", "set": {"jobs.0.epochs": 1}}
        made = bound.scenario_of(ROOT / "configs", study, {"cluster.nodes.0.cores": "3"})
        self.assertEqual((made["jobs"][0]["epochs"], made["cluster"]["nodes"][0]["cores"]), (1, 3))
        self.assertEqual(bound.quantity(made["cluster"]["store"]["bytes_per_s"]), 530e6)

    def test_no_programme_is_taken_for_infeasible(self):
        made = bound.scenario_of(ROOT / "configs", {"scenario": "four-jobs"},
                                 {"cluster.nodes.0.cores": "2"})
        self.assertAlmostEqual(bound.seconds(made, True), 776.784, places=3)


if __name__ == "__main__":
    unittest.main()
