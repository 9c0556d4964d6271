"""How many agents on CPUs are asked for: by what is said of the service, without Ray."""

import unittest

from batchflow.ray_scaling import CpuAgents, Look, workers_wanted

EVERY = 10.0


class Service:
    """`ranks` compute for a tenth of a second a step, and want `wanted` workers for it."""

    def __init__(self, ranks, wanted):
        self.ranks, self.wanted = ranks, wanted
        self.at = self.spent = self.waited = self.busy = 0.0

    def after(self, agents, of_agent=4, seconds=EVERY):
        workers = 1 + agents * of_agent
        self.at += seconds
        self.spent += self.ranks * seconds
        share = max(0.0, 1 - workers / self.wanted) if self.wanted else 0.0
        self.waited += share * self.ranks * seconds
        self.busy += min(workers, self.wanted) * seconds
        return Look(self.at, self.spent, self.waited, self.busy, workers, of_agent)


class Scaling(unittest.TestCase):
    def setUp(self):
        self.asked = []

    def agents(self, least=0, most=100):
        return CpuAgents(least, most, self.asked.append, lambda socket: {})

    def settled(self, scaled, service, looks=100, others=1):
        """Agents come as soon as they are wanted; `others` are on nodes that are there anyway."""
        for _ in range(looks):
            nodes = [f"n{i:03}" for i in range(scaled.wanted)]
            self.assertEqual(scaled.too_many(nodes, nodes), set())
            scaled.judge(service.after(others + len(nodes)))
        return scaled.wanted

    def test_as_many_workers_as_nothing_waits_for(self):
        before = Look(0, 0, 0, 0, 10, 4)
        # Half of the time waits for ten workers that are busy: twenty would do.
        self.assertAlmostEqual(workers_wanted(before, Look(10, 100, 50, 100, 10, 4)), 20)
        # Workers that are idle are not what is missing.
        self.assertAlmostEqual(workers_wanted(before, Look(10, 100, 50, 40, 10, 4)), 5)
        self.assertEqual(workers_wanted(before, Look(10, 0, 0, 0, 10, 4)), 0)

    def test_it_grows_until_nothing_waits_and_stays(self):
        scaled = self.agents()
        self.assertIn(self.settled(scaled, Service(8, 45)), (11, 12, 13, 14))
        stays = scaled.wanted
        self.assertEqual(self.settled(scaled, Service(8, 45)), stays)

    def test_it_stays_within_its_bounds(self):
        self.assertEqual(self.settled(self.agents(0, 3), Service(8, 45)), 3)
        self.assertEqual(self.settled(self.agents(2, 3), Service(0, 0)), 2)

    def test_it_grows_at_most_twofold_and_waits_for_what_it_asked_for(self):
        scaled, service = self.agents(), Service(100, 4000)
        grown = []
        for _ in range(5):
            nodes = [f"n{i}" for i in range(scaled.wanted)]
            scaled.too_many(nodes, nodes)
            scaled.judge(service.after(1 + len(nodes)))
            grown.append(scaled.wanted)
        self.assertEqual(grown, [0, 1, 2, 4, 8])
        for _ in range(5):  # the nodes do not come
            scaled.judge(service.after(5))
        self.assertEqual(scaled.wanted, 8)

    def test_it_goes_one_by_one_after_a_minute(self):
        scaled = self.agents(1, 4)
        self.assertEqual(self.settled(scaled, Service(8, 45)), 4)
        idle = Service(0, 0)
        for _ in range(6):
            scaled.judge(idle.after(5))
        self.assertEqual(scaled.wanted, 4)  # the first look has nothing to compare with
        scaled.judge(idle.after(5))
        self.assertEqual(scaled.wanted, 3)
        self.assertEqual(self.settled(scaled, idle), 1)

    def test_a_service_that_began_anew_is_looked_at_anew(self):
        scaled = self.agents()
        scaled.judge(Service(8, 45).after(1, seconds=100))
        scaled.judge(Service(8, 45).after(1))
        self.assertEqual(scaled.wanted, 0)

    def test_agents_stay_where_they_are(self):
        scaled = self.agents(2)
        self.assertEqual(scaled.too_many(["a", "b", "c"], []), {"c"})
        self.assertEqual(scaled.too_many(["a", "b", "c"], ["c", "b", "x"]), {"a"})

    def test_what_is_wanted_is_asked_for_once(self):
        scaled = self.agents(2)
        scaled.look("socket")
        scaled.look("socket")
        scaled.end()
        self.assertEqual(self.asked, [2, 0])


if __name__ == "__main__":
    unittest.main()
