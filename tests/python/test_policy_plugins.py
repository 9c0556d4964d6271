"""Plugins of policies on a service that runs: installed, ejected, quarantined, while jobs go on."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import threading
import time
import unittest
from pathlib import Path

import batchflow
from support import CTL, Daemon, Served, ServedFolders, wait_until

PLUGINS = Path(os.environ["BATCHFLOW_TEST_PLUGINS"])


def plugin(name):
    return str(PLUGINS / f"{name}.so")


def is_running(process):
    """A zombie is not: a service that began anew waits for no process of the one before."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Installing:
    """What tests of plugins have in common."""

    def ctl(self, *words, code=0):
        done = subprocess.run([CTL, "--service", self.daemon.socket, *words], timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout if code == 0 else done.stderr

    def certified(self, name):
        """A copy of the plugin with a certificate, as if it had passed; and the operator's key."""
        key, public = self.folder / "operator.pem", self.folder / "operator.public.pem"
        if not key.exists():
            subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", key],
                           check=True, stderr=subprocess.DEVNULL)
            subprocess.run(["openssl", "pkey", "-in", key, "-pubout", "-out", public], check=True)
        raw = subprocess.run(["openssl", "pkey", "-in", key, "-pubout", "-outform", "DER"],
                             check=True, stdout=subprocess.PIPE).stdout[-32:]
        file = self.folder / f"{name}.so"
        shutil.copy(plugin(name), file)
        body = self.folder / "body"
        body.write_text(json.dumps(
            {"plugin": {"name": name, "version": "1",
                        "hash": hashlib.sha256(file.read_bytes()).hexdigest()},
             "battery": 1, "verdict": "passed", "made_at": "2026-11-26"}) + "\n")
        signature = subprocess.run(["openssl", "pkeyutl", "-sign", "-rawin", "-inkey", key, "-in", body],
                                   check=True, stdout=subprocess.PIPE).stdout
        Path(f"{file}.certificate").write_text(
            f"{body.read_text()}signature {hashlib.sha256(raw).hexdigest()[:16]} {signature.hex()}\n")
        return str(file), str(public)

    def listed(self):
        return json.loads(self.ctl("policy", "list", "--json"))

    def replay(self, *arguments):
        done = subprocess.run([os.environ["BATCHFLOW_SIM"], "journal", "replay",
                               str(self.folder / "state" / "journal"), *arguments], text=True,
                              timeout=120, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout)


class PolicyPlugins(Installing, Served):
    ROWS = 4000

    def dispatch(self):
        return self.daemon.status()["policies"]["dispatch"]

    def restart_with(self, *arguments):
        self.daemon.kill()
        self.daemon = Daemon(self.folder, "--dataset", f"rows={self.data}", *arguments)
        self.addCleanup(self.daemon.kill)

    def train(self, epochs=3, each=None, pause_s=0.0):
        """Each epoch whole, whatever `each(batch)` does meanwhile. The longest wait for a batch."""
        loader = batchflow.DataLoader("rows", 16, True)
        longest = 0.0
        for _ in range(epochs):
            keys = []
            before = time.monotonic()
            for batch in loader:
                longest = max(longest, time.monotonic() - before)
                keys += self.check_content(batch)[:batch.samples - batch.fillers]
                if each:
                    each(batch)
                time.sleep(pause_s)
                before = time.monotonic()
            self.assert_whole(keys)
        loader.close()
        return longest

    # By the number of its exit.
    WRONG = {"dispatch_throws": 1, "dispatch_answers_rubbish": 2, "dispatch_holds_back": 3,
             "selection_holds_back": 3, "dispatch_hangs": 4, "dispatch_sleeps": 4, "dispatch_crashes": 5, "dispatch_aborts": 5}

    def test_a_plugin_that_misbehaves_is_ejected_and_no_batch_is_lost(self):
        for name, number in self.WRONG.items():
            with self.subTest(name):
                file, key = self.certified(name)
                log = self.misbehave(file, number, "--plugin-key", key, "--policy",
                                     self.policy(name))
                # One that hangs or crashes takes its process along, which begins anew as it was.
                self.assertEqual("begins anew" in log, number >= 4)

    def test_in_a_process_of_its_own_it_takes_nothing_along(self):
        for name, number in self.WRONG.items():
            with self.subTest(name):
                log = self.misbehave(plugin(name), number, "--uncertified", "--journal",
                                     "--policy", self.policy(name))
                self.assertNotIn("begins anew", log)
                # Its answers are in the journal, and so is that there was none.
                self.replay()
                shutil.rmtree(self.folder / "state")

    @staticmethod
    def policy(name):
        return "selection=holds-back" if name.startswith("selection") else "dispatch=mischief"

    def misbehave(self, file, number, *arguments):
        # Small blocks, so that there is much to decide.
        self.restart_with("--plugin", file, *arguments, "--config", self.node_file())
        before = self.daemon.status()["policies"]
        self.assertRegex(json.dumps(before), '"(mischief|holds-back)@[0-9a-f]{12}"')
        process = self.daemon.process.pid
        longest = self.train()
        name = Path(file).stem
        print(f"{Path(file).stem} {arguments[0]}: the longest wait for a batch was {longest:.3f} s")
        listed = self.listed()
        (out,) = listed["quarantined"]
        self.assertEqual(out["exit"], number, out)
        # What hangs or crashes is gone as a whole, and else the policy that was at fault.
        fault = [(one["policy"], one["exit"]) for one in listed["ejected"]]
        if name.startswith("selection"):  # of this stream; others would still have it
            self.assertEqual(fault, [("selection[0]", number)])
            self.assertIn("selection[0] of " + out["hash"][:12], self.ctl("policy", "list"))
        else:
            self.assertEqual(fault, [])
            self.assertNotIn("@", json.dumps(self.daemon.status()["policies"]))
        self.assertEqual(self.daemon.process.pid, process)
        self.assertIsNone(self.daemon.process.poll())
        exit_file = self.folder / "state" / f"plugin-exit-{out['hash'][:12]}.txt"
        said = exit_file.read_text()
        self.assertIn(f"exit {number}: ", said)
        # With its numbers, and with what led there.
        self.assertRegex(said, r"it was asked last\n.*(at \d+\.\d+ s|job \d).*\d+ candidates\n  ")
        self.assertRegex(said, r"last events\n(\d+\.\d{6} \w+ .*\n){5}")
        self.assertFalse(exit_file.with_suffix(".events").exists())
        if number < 4 or "--uncertified" in arguments:  # else the engine went with its process
            self.assertIn("\nthe engine\n", said)
        # It does not come back by itself, only when a person lets it in.
        self.assertIn("quarantined", self.ctl("policy", "install", file, "--uncertified", code=1))
        self.ctl("policy", "reset", out["hash"][:12])
        self.assertEqual(self.listed()["quarantined"], [])
        log = self.daemon.log.read_text()
        self.daemon.kill(signal.SIGTERM)
        self.daemon.log.unlink()
        return log

    def node_file(self):
        file = self.folder / "node.yaml"
        file.write_text("kind: node\nengine: {block_bytes: 8kib}\n")
        return str(file)

    def test_a_process_that_was_stopped_is_no_fault_of_its_plugin(self):
        self.restart_with("--journal", "--config", self.node_file(), "--plugin",
                          plugin("several"), "--uncertified", "--policy", "preset=several")
        processes = []

        def stop(batch):
            if batch.step % 60 == 59 and len(processes) < 3:
                (one,) = self.listed()["plugins"]
                if one["process"] > 0 and one["process"] not in processes:
                    processes.append(one["process"])
                    os.kill(one["process"], signal.SIGSTOP)

        longest = self.train(3, stop, 0.002)
        print(f"{len(processes)} stopped processes: the longest wait for a batch was {longest:.3f} s")
        self.assertEqual(len(processes), 3)
        self.assertRegex(self.dispatch(), "^oldest-turn@")
        self.assertEqual(self.listed()["quarantined"], [])
        self.assertIn("its process was stopped; it gets another process",
                      self.daemon.log.read_text())
        self.daemon.kill(signal.SIGTERM)
        for process in processes:
            self.assertFalse(Path(f"/proc/{process}").exists())
        self.replay()

    def test_a_process_ends_when_the_service_begins_anew(self):
        file, key = self.certified("dispatch_crashes")
        self.restart_with("--plugin", file, "--plugin-key", key, "--plugin", plugin("several"),
                          "--uncertified", "--policy", "dispatch=mischief", "--policy",
                          "eviction=counting", "--config", self.node_file())
        apart = [one["process"] for one in self.listed()["plugins"]
                 if one["process"] != self.daemon.process.pid]
        self.assertEqual(len(apart), 1)
        self.train()
        self.assertIn("begins anew", self.daemon.log.read_text())
        now = [one["process"] for one in self.listed()["plugins"]]
        self.assertEqual(len(now), 1)
        self.assertNotIn(apart[0], now)
        wait_until(lambda: not is_running(apart[0]), 10, "the end of the process before")

    def test_a_plugin_is_installed_while_jobs_run(self):
        said = []

        def install(batch):
            if batch.step == 60 and not said:
                said.append(self.ctl("policy", "install", plugin("several"), "--uncertified",
                                     "--watch", "1"))

        self.train(2, install, 0.001)
        self.assertRegex(said[0], "NOT certified")
        self.assertRegex(said[0], "in force: eviction=counting@.*, dispatch=oldest-turn@")
        self.assertRegex(self.dispatch(), "^oldest-turn@")
        self.assertIn("several 1.2.0", self.ctl("policy", "list"))
        said = self.ctl("policy", "set", "dispatch=fifo")
        self.assertRegex(said, "dispatch: oldest-turn@[0-9a-f]{12} -> fifo")
        said = self.ctl("policy", "set", "preset=several")
        self.assertRegex(said, "dispatch: fifo -> oldest-turn@")
        self.assertIn("nothing changes", self.ctl("policy", "set", "dispatch=oldest-turn"))

    def test_a_plugin_under_which_jobs_wait_is_taken_back(self):
        self.restart_with("--config", self.node_file())

        def install(batch):
            if batch.step == 20 and batch.epoch == 0:
                self.ctl("policy", "install", plugin("dispatch_dawdles"), "--uncertified")

        loader = batchflow.DataLoader("rows", 16, True)
        log = self.daemon.log
        begin = time.monotonic()
        for batch in loader.epochs():
            install(batch)
            time.sleep(0.002)
            if "is ejected (exit 6" in log.read_text() or time.monotonic() - begin > 60:
                break
        loader.close()
        self.assertRegex(log.read_text(), "exit 6, jobs waited longer")
        self.assertEqual(self.dispatch(), "batchflow")
        # What jobs waited for is no crime: it may be tried again.
        self.assertEqual(self.listed()["quarantined"], [])

    def test_shadows_show_what_they_would_have_hit(self):
        self.assertIn("there is no shadow", self.ctl("policy", "shadow"))
        self.assertIn("eviction.encoded=lru: no request has come yet",
                      self.ctl("policy", "shadow", "eviction.encoded=lru"))
        said = self.ctl("policy", "install", plugin("several"), "--uncertified", "--shadow")
        self.assertRegex(said, "shown all requests: eviction.encoded=lru, eviction=counting@.*; it "
                               "decides nothing")
        before = self.daemon.status()["policies"]
        self.train(3)
        shadows = json.loads(self.ctl("policy", "shadow", "--json"))["shadows"]
        of_samples = {one["policy"].split("@")[0]: one for one in shadows
                      if one["eviction"] == "encoded"}
        self.assertEqual(set(of_samples), {"lru", "counting"})
        for one in of_samples.values():
            # All fits: the first epoch is read, the others hit.
            self.assertGreaterEqual(one["requests"], 2 * self.ROWS)
            self.assertLessEqual(one["hits"], one["requests"])
            self.assertEqual(one["hits"], one["live_hits"])
        self.assertRegex(self.ctl("policy", "shadow"), r"encoded +lru +\d+")
        self.assertEqual(self.daemon.status()["policies"], before)
        self.assertIn("there is no shadow", self.ctl("policy", "shadow", "--stop"))

    def test_what_throws_in_one_share_is_ejected_there(self):
        other = self.folder / "other"
        shutil.copytree(self.data, other)
        file, key = self.certified("throws_later")
        self.restart_with("--dataset", f"other={other}", "--plugin", file, "--plugin-key", key,
                          "--policy", "eviction.prepared=mischief", "--journal",
                          "--config", self.node_file())
        policies = self.daemon.status()["policies"]
        gone, loaders = [], []
        for dataset in ("rows", "other"):
            loader = batchflow.DataLoader(dataset, 16, True)
            self.addCleanup(loader.close)
            for _ in range(3):
                keys = []
                for batch in loader:
                    keys += self.check_content(batch)[:batch.samples - batch.fillers]
                self.assert_whole(keys)
            # The other job's share has the plugin, until it throws there as well.
            before, gone = gone, [one["policy"] for one in self.listed()["ejected"]]
            self.assertEqual(len(gone), len(before) + 1, gone)
            self.assertRegex(gone[-1], r"eviction\.prepared\[\d+\]")
            self.assertEqual(self.daemon.status()["policies"], policies)
            (out,) = self.listed()["quarantined"]
            said = (self.folder / "state" / f"plugin-exit-{out['hash'][:12]}.txt").read_text()
            self.assertIn(f"it was asked last\n{gone[-1]}: ", said)
            loaders.append(loader)
        for loader in loaders:
            loader.close()
        self.daemon.kill(signal.SIGTERM)
        self.replay("--plugin", file)

    def test_faults_one_after_the_other_lose_nothing(self):
        """BATCHFLOW_INJECTIONS=1000 injects so many."""
        for apart in (True, False):
            with self.subTest("apart" if apart else "in process"):
                self.inject_faults(apart)

    def inject_faults(self, apart):
        names = ["dispatch_throws", "dispatch_answers_rubbish", "dispatch_holds_back",
                 "dispatch_hangs", "dispatch_crashes", "dispatch_aborts"]
        injections = int(os.environ.get("BATCHFLOW_INJECTIONS", "12"))
        files = {}
        arguments = ["--config", self.node_file()]
        for name in names:
            files[name], key = (plugin(name), None) if apart else self.certified(name)
        self.restart_with(*arguments, *(["--plugin-key", key] if key else []))
        process = self.daemon.process.pid
        done, problems = [], []

        def ask(*words):
            """None: the service began anew meanwhile."""
            said = subprocess.run([CTL, "--service", self.daemon.socket, *words], timeout=60,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            if said.returncode != 0 and not any(
                    why in said.stderr for why in ("reset by peer", "no service", "has ended",
                                                   "closed", "refused")):
                raise AssertionError(said.stderr)
            return said.stdout if said.returncode == 0 else None

        def quarantined():
            said = ask("policy", "list", "--json")
            return said and json.loads(said)["quarantined"]

        def inject():
            try:
                for i in range(injections):
                    ask("policy", "install", files[names[i % len(names)]],
                        *(["--uncertified"] if apart else []), "--watch", "600", "--most-worse",
                        "100")
                    wait_until(quarantined, 30, f"the end of {names[i % len(names)]}")
                    for one in quarantined() or ():
                        wait_until(lambda: ask("policy", "reset", one["hash"]), 30, "a reset")
                    done.append(names[i % len(names)])
            except BaseException as error:
                problems.append(error)

        injecting = threading.Thread(target=inject)
        injecting.start()
        loader = batchflow.DataLoader("rows", 16, True)
        longest, epochs = 0.0, 0
        while injecting.is_alive() or epochs < 2:
            keys, before = [], time.monotonic()
            for batch in loader:
                longest = max(longest, time.monotonic() - before)
                keys += self.check_content(batch)[:batch.samples - batch.fillers]
                time.sleep(0.001)
                before = time.monotonic()
            self.assert_whole(keys)
            epochs += 1
        loader.close()
        injecting.join()
        self.assertEqual(problems, [])
        self.assertEqual(len(done), injections)
        self.assertEqual(self.daemon.process.pid, process)
        self.assertIsNone(self.daemon.process.poll())
        print(f"{injections} faults {'apart' if apart else 'in process'} in {epochs} whole epochs of {self.ROWS} samples: the longest "
              f"wait for a batch was {longest:.3f} s")

    def test_a_new_plugin_is_written_here_too(self):
        said = subprocess.run([CTL, "policy", "new", "mine", "--kind", "scaling"], check=True,
                              cwd=self.folder, stdout=subprocess.PIPE, text=True, timeout=60).stdout
        self.assertIn("batchflow-sim check mine/build/mine.so", said)
        self.assertIn('BATCHFLOW_POLICY_PLUGIN("mine"', (self.folder / "mine/mine.cpp").read_text())

    def train_with_a_plugin_installed(self, *words):
        def install(batch):
            if batch.step == 60 and batch.epoch == 0:
                self.ctl("policy", "install", *words)

        self.train(2, install)
        self.daemon.kill(signal.SIGTERM)

    def test_a_journal_is_replayed_with_the_plugin_that_it_names(self):
        file, key = self.certified("several")
        self.restart_with("--journal", "--plugin-key", key)
        self.train_with_a_plugin_installed(file)
        replay = [os.environ["BATCHFLOW_SIM"], "journal", "replay",
                  str(self.folder / "state" / "journal")]
        alone = subprocess.run(replay, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               timeout=120)
        self.assertEqual(alone.returncode, 2, alone.stderr)
        self.assertRegex(alone.stderr, "policy 'counting@[0-9a-f]+' is of a plugin that is not "
                                       "loaded; give its file by --plugin")
        self.replay("--plugin", file)

    def test_a_journal_needs_no_plugin_that_ran_apart(self):
        # Not all fits, so that there is something to evict.
        self.restart_with("--journal", "--config", self.node_file())
        self.train_with_a_plugin_installed(plugin("several"), "--uncertified")
        self.replay()

    def test_a_plugin_installed_twice_gives_way_to_the_defaults(self):
        for _ in range(2):
            self.ctl("policy", "install", plugin("dispatch_throws"), "--uncertified")
        self.train(2)
        self.assertEqual(self.dispatch(), "batchflow")

    def test_what_cannot_be_loaded_changes_nothing(self):
        before = self.listed()
        for name, why in {"throws": "while it was loaded",
                          "starts_thread": "it starts threads",
                          "other_version": "versions 7 to 9 of the interface",
                          "no_footer": "it has no footer"}.items():
            self.assertIn(why, self.ctl("policy", "install", plugin(name), "--uncertified",
                                        code=1))
        self.assertIn("there is no certificate", self.ctl("policy", "install", plugin("several"),
                                                          code=1))
        self.assertEqual(self.listed(), before)
        self.train(1)

    def test_certificates(self):
        key, public = str(self.folder / "key.pem"), str(self.folder / "public.pem")
        other = str(self.folder / "other.pem")
        for file in (key, other):
            subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", file],
                           check=True, stderr=subprocess.DEVNULL)
        subprocess.run(["openssl", "pkey", "-in", key, "-pubout", "-out", public], check=True)
        copy = self.folder / "several.so"
        shutil.copy(plugin("several"), copy)
        subprocess.run([os.environ["BATCHFLOW_SIM"], "check", str(copy), "--key", key,
                        "--most-worse", "60"], check=True, stdout=subprocess.DEVNULL, timeout=120)
        certificate = self.folder / "several.so.certificate"
        good = certificate.read_bytes()
        self.restart_with("--plugin-key", public)
        self.assertRegex(self.ctl("policy", "install", str(copy)), "certified with key [0-9a-f]+")

        # Of the same key, for each thing that may be wrong with one.
        self.restart_with("--plugin-key", public)
        wrong = {"its signature is wrong": good.replace(b'"several"', b'"Several"', 1),
                 "no line with a signature": good[:len(good) // 2],
                 "which this service does not trust":
                     good.replace(b"signature ", b"signature 0", 1)}
        for why, content in wrong.items():
            certificate.write_bytes(content)
            self.assertIn(why, self.ctl("policy", "install", str(copy), code=1))
        certificate.write_bytes(good)
        shutil.copy(plugin("plain"), copy)
        self.assertIn("it is of another file", self.ctl("policy", "install", str(copy), code=1))



class PoliciesOfJobs(Installing, ServedFolders):
    """Jobs ask for policies of mixtures and of rehearsal, also for those of plugins."""

    SERVED_AS, SIZES = "corpus", {"web": 40, "code": 60, "math": 50}
    BEGIN = {"web": 0.8, "code": 0.1, "math": 0.1}

    def each_way(self, name):
        """A service that has the plugin in a process of its own, and one that has it in its own."""
        file, key = self.certified(name)
        for words in ([plugin(name), "--uncertified"], [file]):
            self.daemon.kill()
            shutil.rmtree(self.folder / "state", True)
            self.daemon = Daemon(self.folder, "--dataset", f"corpus={self.data}", "--plugin-key", key,
                                 "--journal")
            os.environ["BATCHFLOW_SERVICE"] = self.daemon.socket
            print(f"{name}: {words}")
            yield self.ctl("policy", "install", *words), [] if len(words) > 1 else ["--plugin", file]

    def weights_after(self, steps, policy):
        loader = batchflow.DataLoader("corpus", 50, mixture=self.BEGIN, weights_policy=policy,
                                      draws=10**6)
        batches = iter(loader)
        for _ in range(steps):
            next(batches)
            loader.report_losses({"web": 0.5, "code": 2.5, "math": 1.0})
        mixture = loader.mixture()
        loader.close()
        return mixture.changes[-1].weights if mixture.changes else {
            name: source.weight for name, source in mixture.sources.items()}

    def assert_weights(self, weights, expected):
        self.assertEqual(weights.keys(), expected.keys())
        for name, weight in expected.items():
            self.assertAlmostEqual(weights[name], weight, 6)

    def test_a_mixture_goes_by_a_policy_of_a_plugin(self):
        for said, replayed_with in self.each_way("mixture_hardest_half"):
            self.assertRegex(said, r"jobs may ask for: mixture=hardest-half@[0-9a-f]{12}")
            self.assert_weights(self.weights_after(60, "hardest-half:every=1000"),
                                {"web": 0.25, "code": 0.5, "math": 0.25})
            self.daemon.kill(signal.SIGTERM)
            self.replay(*replayed_with)

    def test_one_that_throws_is_quarantined_and_its_weights_stay(self):
        for _, replayed_with in self.each_way("mixture_throws"):
            # It answers twice: three times the weight for the first source by name.
            self.assert_weights(self.weights_after(60, "throws"),
                                {"web": 0.2, "code": 0.6, "math": 0.2})
            (out,) = self.listed()["quarantined"]
            self.assertEqual(out["exit"], 1)
            self.assertIn("not on a Sunday", self.daemon.log.read_text())
            self.daemon.log.unlink()
            self.daemon.kill(signal.SIGTERM)
            if not replayed_with:  # with the plugin, it would end by what the plugin throws
                self.replay()

    def test_a_buffer_goes_by_a_policy_of_a_plugin(self):
        for said, replayed_with in self.each_way("rehearsal_newest"):
            self.assertIn("jobs may ask for: rehearsal=newest@", said)
            loader = batchflow.DataLoader("corpus", 10, True, shuffle_seed=3, order="strict", rehearsal={
                "policy": "newest", "samples": 20, "rehearsed": 2, "name": "run"})
            had = [key for batch in loader for key in batch.sample_keys.tolist()]
            self.assertEqual(sorted(had), list(range(150)))
            next(iter(loader))
            self.assertEqual(sorted(loader.exemplars().keys), sorted(had[-20:]))
            loader.close()
            self.daemon.kill(signal.SIGTERM)
            self.replay(*replayed_with)


if __name__ == "__main__":
    unittest.main()
