"""Runs training scripts as they are and with one changed line, and compares what they print."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter

from support import HERE, Daemon, Folder, free_port

LINE = "from torch.utils.data import DataLoader\n"
OURS = "from batchflow import DataLoader\n"
SERVED, LOCAL = "DataLoader", "LocalDataLoader"
IN_ORDER = "OwnOrderDataLoader"  # served, in the order that the script's own sampler says
SHUFFLED = ("train", "test", "drawn")  # the other lists of batches have one order
BY_ORDER = ("loss", "sides")  # what a model learns, and how long the samples of a batch are


def flat(batches):
    return [sample for batch in batches for sample in batch]


def counted(samples):
    return Counter(json.dumps(sample) for sample, _ in samples)


class ChangedLine(Folder):
    def setUp(self):
        super().setUp()
        self.root = self.folder / "data"
        self.root.mkdir()
        daemon = Daemon(self.folder, "--open-datasets", "--workers", "2", memory="2gib")
        self.addCleanup(daemon.kill)
        os.environ["BATCHFLOW_SERVICE"] = daemon.socket

    def printed(self, script, text, ranks):
        """What each rank of a script prints, an object a line; and what it says on stderr."""
        file = self.folder / script
        file.write_text(text)
        env = dict(os.environ, PYTHONFAULTHANDLER="1")
        if ranks > 1:
            env.update(WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()),
                       GLOO_SOCKET_IFNAME="lo")
        running = []
        for rank in range(ranks):
            out, err = (open(f"{file}.{rank}.{name}", "w+") for name in ("out", "err"))
            self.addCleanup(out.close)
            self.addCleanup(err.close)
            if ranks > 1:
                env["RANK"] = env["LOCAL_RANK"] = str(rank)
            running.append((subprocess.Popen([sys.executable, str(file), str(self.root)], env=env,
                                             stdout=out, stderr=err), out, err))
            self.addCleanup(running[-1][0].kill)
        # A rank that fails leaves the others waiting for it: what it said is shown, not their wait.
        deadline = time.monotonic() + 250
        codes = [None] * ranks
        while None in codes and not any(codes) and time.monotonic() < deadline:
            time.sleep(0.02)
            codes = [process.poll() for process, _, _ in running]
        for process, _, _ in running:
            if process.poll() is None:
                process.send_signal(signal.SIGABRT)  # it says where it waits
                process.wait(60)
        printed, said = [], ""
        for _, out, err in running:
            for one in (out, err):
                one.seek(0)
            said += err.read()
            printed.append(out.read().splitlines())
        self.assertEqual(codes, [0] * ranks, f"{printed}\n{said[-6000:]}")
        return [[json.loads(line) for line in lines] for lines in printed], said

    def check(self, script, loaders, ranks=1, knows=False, **how):
        """`loaders`: their classes, in turn, with the changed line. `knows`: all samples are known from
        the data, since an epoch of the script does not show them."""
        from script_data import OF_SCRIPT
        known = OF_SCRIPT[script](self.root)
        if knows:
            how["samples"] = known
        text = (HERE / "scripts" / script).read_text()
        self.assertEqual(text.count(LINE), 1)
        theirs, _ = self.printed(script, text, ranks)
        ours, said = self.printed(script, text.replace(LINE, OURS), ranks)
        for given, expected in zip(ours, theirs):
            self.assertEqual(expected.pop()["loaders"], [SERVED] * len(loaders))
            self.assertEqual(given.pop()["loaders"], loaders, said)
            self.assertEqual([list(one) for one in given], [list(one) for one in expected])
        if set(loaders) == {LOCAL}:  # to the last bit
            self.assertEqual(ours, theirs)
            self.assertIn("is loaded by this script's own workers, as PyTorch would", said)
        elif set(loaders) == {IN_ORDER}:  # the same samples at each step; draws are other ones
            for given, expected in zip(ours, theirs):
                for line, other in zip(given, expected):
                    self.assertEqual({**line, "loss": 0}, {**other, "loss": 0})
        else:
            self.check_lines(ours, theirs, **how)
        return said

    def check_lines(self, ours, theirs, within=0.1, in_turn=False, **how):
        """`within`: how far accuracies may be from each other, as the orders are. `in_turn`: nothing is
        shuffled, so all is the same."""
        if in_turn:
            self.assertEqual(ours, theirs)
            return
        for given, expected in zip(ours, theirs):
            for line, other in zip(given, expected):
                for name, value in line.items():
                    if name in SHUFFLED:
                        self.assertEqual([len(batch) for batch in value],
                                         [len(batch) for batch in other[name]])
                    elif name in ("accuracy", "minority"):
                        self.assertLessEqual(abs(value - other[name]), within, (line, other))
                    elif name == "loss" or name in BY_ORDER and set(line) & set(SHUFFLED):
                        self.assertIs(type(value), type(other[name]))
                    else:
                        self.assertEqual(value, other[name], name)
        for name in SHUFFLED:
            epochs = [[[sample for rank in lines for sample in flat(rank[at][name])]
                       for lines in (ours, theirs)]
                      for at, line in enumerate(theirs[0]) if name in line]
            for given, expected in epochs:
                self.check_samples(given, expected, len(ours), draws=name == "drawn", **how)
            for (one, _), (other, _) in zip(epochs, epochs[1:]):
                self.assertNotEqual(one, other)  # each epoch has an order of its own

    def check_samples(self, given, expected, ranks, draws, drops=False, samples=None):
        """Each with its label, and as often as in the script as it is. `drops`: an epoch leaves some
        out; `samples`: all of them, where some are left out or drawn."""
        labels = {json.dumps(sample): label for sample, label in samples or expected}
        for sample, label in given:
            self.assertEqual(labels.get(json.dumps(sample), label), label)
        if samples is not None:
            self.assertLessEqual({json.dumps(sample) for sample, _ in given}, set(labels))
        if draws:
            return
        often = Counter(counted(given).values())
        if drops or ranks > 1:  # ranks get equal counts: some samples come twice
            self.assertLessEqual(len(given) - len(counted(given)), ranks - 1, often)
        if not drops and ranks > 1:
            self.assertEqual(set(counted(given)), set(counted(expected)))
        if not drops and ranks == 1:
            self.assertEqual(sorted(given), sorted(expected))
