"""Live jobs that rehearse from a reservoir, with exact ids: what each batch rehearses is compared with
the rule of docs/order.md, which is written down here once more, while the log drops nearly all
records and the service is killed."""

import signal
import threading
import unittest

import batchflow
from support import wait_until
from test_live import WIDTH, Fed
from test_orders import GOLDEN, MASK, hash_of, mix

RECORDS = 30_000  # which take 5 MB in the log


def below(key, n):
    return mix(key + GOLDEN & MASK) * n >> 64


class Reservoir:
    """Which records a job rehearses that began with record 0."""

    def __init__(self, state, most):
        self.root = int(state["dataset"], 16), state["seed"]
        self.most, self.shown, self.slots, self.fills = most, 0, [], 0

    def draw(self, count):
        self.fills += count
        return [self.slots[below(hash_of(12, *self.root, fill), len(self.slots))]
                for fill in range(self.fills - count, self.fills)]

    def show(self, records):
        for record in records:
            slot = len(self.slots)
            if slot == self.most:
                slot = below(hash_of(14, *self.root, record), self.shown + 1)
            self.slots[slot:slot + 1] = [record] if slot < self.most else []
            self.shown += 1


class Rehearsing(Fed):
    KEEP = "1mib"

    def rehearsing(self, batch_size=200, samples=300, rehearsed=50, live=None, **arguments):
        # It waits for so long that all batches are whole.
        return self.loader(batch_size, live or batchflow.Live("clicks", wait=60), timeout=120,
                           rehearsal={"policy": "reservoir", "samples": samples, "rehearsed": rehearsed},
                           **arguments)

    def begin_sending(self, records=RECORDS):
        sending = threading.Thread(target=self.send, args=(range(records),), kwargs={"end": True})
        sending.start()
        self.addCleanup(sending.join)

    def first(self):
        return self.daemon.status()["datasets"][0]["feed"]["first"]

    def check(self, batch, reservoir):
        """Each record in its turn, and what is rehearsed by the rule."""
        new = self.numbers(batch)  # it sees to all numbers of the batch
        self.assertEqual(new, list(range(reservoir.shown, reservoir.shown + len(new))))
        old = batch.sample_keys.tolist()[len(new):]
        self.assertEqual(old, reservoir.draw(batch.rehearsed))
        self.assertEqual([marks & batchflow.REHEARSED for marks in batch.marks.tolist()],
                         [0] * len(new) + [batchflow.REHEARSED] * len(old))
        reservoir.show(new)

    def train(self, loader, samples=300, each=lambda step: None):
        """A job from its first record to the end. Answers how much each batch rehearsed, and the
        oldest record of each."""
        reservoir, rehearsed, oldest = None, [], []
        for step, batch in enumerate(loader):
            reservoir = reservoir or Reservoir(loader.state_dict(), samples)
            self.check(batch, reservoir)
            rehearsed.append(batch.rehearsed)
            oldest.append(min(batch.sample_keys.tolist()))
            each(step)
        return rehearsed, oldest, reservoir


class OfAll(Rehearsing):
    def test_each_batch_rehearses_and_each_record_comes_once(self):
        self.send(range(8 + 5 * 20 + 3), end=True)
        rehearsed, _, reservoir = self.train(self.rehearsing(8, 20, 3), 20)
        self.assertEqual(rehearsed, [0] + [3] * 20 + [0])
        self.assertEqual(reservoir.shown, 111)

    def test_a_slow_feed_is_filled_up_from_the_reservoir(self):
        self.send(range(8))
        loader = self.rehearsing(8, 5, 1, batchflow.Live("clicks", wait=0.05))
        batches, reservoir = iter(loader), None
        for came in range(4):
            batch = next(batches)
            reservoir = reservoir or Reservoir(loader.state_dict(), 5)
            self.check(batch, reservoir)
            self.assertGreaterEqual(batch.rehearsed, 1 if came else 0)
            self.send(range(8 + 2 * came, 10 + 2 * came), name=f"later {came}")
        loader.close()

    def test_the_log_drops_records_and_keeps_those_that_are_rehearsed(self):
        self.begin_sending()
        rehearsed, oldest, reservoir = self.train(self.rehearsing())
        self.assertEqual(rehearsed, [0] + [50] * 198 + [0])
        self.assertEqual(reservoir.shown, RECORDS)
        self.assertGreater(self.first(), 20_000)
        self.assertLess(min(oldest[-10:-1]), 10_000)
        feed = self.daemon.status()["datasets"][0]["feed"]
        self.assertEqual(feed["exemplars"], 300)
        self.assertLess(feed["exemplar_bytes"], 2**20)

    def test_no_exemplar_is_lost_when_the_service_is_killed(self):
        self.begin_sending()

        def kill(step):
            if step in (0, 20, 60, 61, 110, 150):
                self.daemon.kill(signal.SIGKILL)
                self.daemon.start()

        rehearsed, oldest, reservoir = self.train(self.rehearsing(), each=kill)
        self.assertEqual(rehearsed, [0] + [50] * 198 + [0])
        self.assertEqual(reservoir.shown, RECORDS)
        self.assertLess(min(oldest[-10:-1]), 10_000)

    def finished(self):
        """The keys of each step of a job that has trained on the whole feed, in some order, and the
        states that another job can go on from: behind which steps they are."""
        self.begin_sending()
        steps, states = [], []
        loader = self.rehearsing(copy=True)
        for batch in loader:
            steps.append(sorted(batch.sample_keys.tolist()))
            states.append(loader.state_dict())
        loader.close()
        wait_until(lambda: not self.daemon.status()["jobs"])
        first = self.first()
        self.assertGreater(first, 20_000)
        there = [i for i in range(len(steps)) if 200 + 150 * i >= first]
        self.assertGreater(len(there), 3)
        return steps, {i: states[i] for i in there[:-2]}

    def test_a_state_goes_on_with_the_same_steps_at_another_world_size(self):
        steps, states = self.finished()
        self.daemon.kill(signal.SIGKILL)
        self.daemon.start()
        behind, by_step = min(states), {}

        def rank(number):
            mine = self.rehearsing(100, 300, 25, rank=number, world_size=2, job_name="resumed")
            mine.load_state_dict(states[behind])
            for step, batch in enumerate(mine):
                by_step.setdefault(step, []).extend(batch.sample_keys.tolist())

        ranks = [threading.Thread(target=rank, args=(number,)) for number in range(2)]
        for one in ranks:
            one.start()
        for one in ranks:
            one.join(120)
        self.assertEqual([sorted(by_step[step]) for step in sorted(by_step)], steps[behind + 1:])

    def test_a_job_goes_on_only_where_its_exemplars_are(self):
        _, states = self.finished()
        for samples in (200, 400):
            again = self.rehearsing(samples=samples)
            again.load_state_dict(states[min(states)])
            with self.assertRaisesRegex(batchflow.RefusedError,
                                        f"does not keep {samples} exemplars of the records from 0 on"):
                next(iter(again))
        # What begins anew rehearses from what is there.
        begins = self.first()
        anew = self.rehearsing(samples=200)
        self.assertEqual(next(iter(anew)).sample_keys.tolist(), list(range(begins, begins + 200)))
        anew.close()

    def test_a_job_that_waited_for_its_service_has_its_exemplars_though_another_job_came_first(self):
        self.send(range(2000))
        waits = self.rehearsing(job_name="waits")
        batches = iter(waits)
        reservoir = None
        for _ in range(10):
            batch = next(batches)
            reservoir = reservoir or Reservoir(waits.state_dict(), 300)
            self.check(batch, reservoir)
        state = waits.state_dict()
        self.assertEqual((self.first(), reservoir.shown), (0, 1550))
        waits.close()
        self.daemon.kill(signal.SIGKILL)
        self.daemon.start()
        # The service has not heard of that job, and drops records for another one, but none that
        # the job has not had.
        other = self.loader(100, timeout=120)
        batches = iter(other)
        for _ in range(15):
            next(batches)
        sending = threading.Thread(target=self.send, args=(range(2000, 5000), "two"))
        sending.start()
        self.addCleanup(sending.join)
        wait_until(lambda: self.first() > 0)
        self.assertLessEqual(self.first(), reservoir.shown)
        again = self.rehearsing(job_name="waits")
        again.load_state_dict(state)
        self.check(next(iter(again)), reservoir)
        again.close()
        other.close()


class Refused(Rehearsing):
    def test_more_exemplars_than_there_is_room_for_are_refused(self):
        most = 2**18 // (8 * WIDTH + 64)
        with self.assertRaisesRegex(batchflow.RefusedError, f"has room for, which is {most}:"):
            next(iter(self.rehearsing(samples=most + 1)))
        self.send(range(200))
        first = self.rehearsing(samples=most - 10, job_name="first")
        next(iter(first))
        with self.assertRaisesRegex(batchflow.RefusedError, "no room for a buffer of 11 exemplars"):
            next(iter(self.rehearsing(samples=11, job_name="second")))
        next(iter(self.rehearsing(samples=10, job_name="third")))
        # It rehearses from the same ones.
        next(iter(self.rehearsing(samples=most - 10, job_name="fourth")))

    def test_policies_that_go_by_what_records_are(self):
        for policy in ("per-class", "by-score", "prioritised", "random-replacement"):
            rehearsal = {"policy": policy, "samples": 10, "rehearsed": 1}
            with self.subTest(policy), self.assertRaisesRegex(ValueError, "write 'reservoir' as the policy"):
                next(iter(self.loader(live=batchflow.Live("clicks"), rehearsal=rehearsal)))


if __name__ == "__main__":
    unittest.main()
