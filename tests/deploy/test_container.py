"""The steps of tools/packaging/Containerfile, without a container engine: each stage is a root folder
that debootstrap made. Then the image's coordinator runs there, by the manifests' commands. A long
test, as all of the service is compiled."""

import os
import re
import shutil
import subprocess
import unittest

from manifests import ROOT, daemon, instructions, node_texts, pod, workloads
from support import Folder, wait_until, write_rows
from test_cluster import free_port

BASES = {"debian:bookworm-slim": "bookworm"}
# What runs in a root folder ends with the command: it has processes of its own.
INSIDE = 'mount -t proc proc "$0/proc" && exec chroot "$@"'


class Container(Folder):
    def setUp(self):
        super().setUp()
        if os.getuid() != 0:
            self.skipTest("only root can change its root folder")
        if shutil.which("debootstrap") is None:
            self.skipTest("debootstrap is not installed")
        self.fresh = {}

    def run_it(self, *command, seconds=600):
        done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=seconds)
        self.assertEqual(done.returncode, 0, f"{command}: {done.stdout[-4000:]}")
        return done.stdout

    def inside(self, root, *command, user="0:0"):
        """The words of a command that runs in a root folder."""
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", INSIDE, root,
                f"--userspec={user}", root, "env", "-i", "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
                *command]

    def root_of(self, base, name):
        """A new root folder."""
        root = self.folder / name
        if base not in self.fresh:
            first = self.folder / "base"
            # What it mounts goes with it.
            done = subprocess.run(["unshare", "--mount", "debootstrap", "--variant=minbase", BASES[base], first],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  timeout=900)
            if done.returncode != 0:
                self.skipTest(f"debootstrap fails here: {done.stdout.strip().splitlines()[-1]}")
            self.fresh[base] = first
        self.run_it("cp", "-a", self.fresh[base], root)
        shutil.copy("/etc/resolv.conf", root / "etc" / "resolv.conf")
        return root

    def copy(self, words, root, stages):
        *options, source, target = words.split()
        target = root / target.lstrip("/")
        if options:
            (stage,) = options
            from_root = stages[stage.removeprefix("--from=")]
            self.run_it("cp", "-aT", from_root / source.lstrip("/"), target)
            return
        self.assertEqual(source, ".")
        left_out = {line for line in (ROOT / ".dockerignore").read_text().splitlines()
                    if not line.startswith("#")}
        target.mkdir()
        for path in ROOT.iterdir():
            if path.name not in left_out:
                self.run_it("cp", "-a", path, target)

    def build(self):
        """Runs all steps. Returns the last stage's root, its user and its entry point."""
        stages, root, user, entry = {}, None, "0:0", None
        for name, words in instructions():
            if name == "FROM":
                base, _, stage = words.partition(" AS ")
                stage = stage or "image"
                root = stages[stage] = self.root_of(base, stage)
            elif name == "COPY":
                self.copy(words, root, stages)
            elif name == "RUN":
                self.run_it(*self.inside(root, "sh", "-c", words), seconds=3000)
            elif name == "USER":
                user = words
            elif name == "ENTRYPOINT":
                entry = re.findall(r'"([^"]*)"', words)
            else:
                self.fail(f"{name}: this test does not know it")
        return root, user, entry

    def test_its_steps_make_an_image_whose_coordinator_serves(self):
        root, user, entry = self.build()
        self.assertRegex(self.run_it(*self.inside(root, *entry, "--version", user=user)), r"\d+\.\d+")
        self.check_node_files(root, user, entry)
        self.check_coordinator(root, user, entry)

    def check_node_files(self, root, user, entry):
        (root / "etc" / "batchflow").mkdir()
        for name, text in node_texts().items():
            (root / "etc" / "batchflow" / name).write_text(text)
            self.run_it(*self.inside(root, *entry, "--check", f"/etc/batchflow/{name}", user=user))

    def check_coordinator(self, root, user, entry):
        # The folders of the node are made by root, who may do no more than that.
        folders, _ = pod(workloads()["gpu-agent"])["initContainers"]
        rights = ",".join(["-all", *(f"+{one.lower()}" for one in
                                     folders["securityContext"]["capabilities"]["add"])])
        for path in ("run/batchflow", "var/lib/batchflow"):
            shutil.rmtree(root / path)
            (root / path).mkdir()
        self.run_it(*self.inside(root, "setpriv", f"--bounding-set={rights}", f"--inh-caps={rights}",
                                 "--no-new-privs", *folders["command"]))
        # A Secret with its group set, and an empty folder in memory.
        coordinator = workloads()["coordinator"]
        (token,) = pod(coordinator)["initContainers"]
        group = pod(coordinator)["securityContext"]["fsGroup"]
        (root / "secret").mkdir()
        (root / "secret" / "token").write_text("0123456789abcdef" * 4)
        (root / "secret" / "token").chmod(0o440)
        os.chown(root / "secret" / "token", 0, group)
        (root / "run" / "token").mkdir()
        (root / "run" / "token").chmod(0o777)
        self.run_it(*self.inside(root, *token["command"], user=user))
        # It serves.
        (root / "data" / "imagenet" / "train").mkdir(parents=True)
        write_rows(root / "data" / "imagenet" / "train" / "rows.npy", 600)
        config = root / "etc" / "batchflow" / "coordinator.yaml"
        text = config.read_text().replace(", pipeline: imagenet-train", "")
        text = re.sub(r"memory: \w+", "memory: 384mib", text)
        for port in ("9837", "9838"):
            text = text.replace(f"0.0.0.0, port: {port}", f"127.0.0.1, port: {free_port()}")
        config.write_text(text)
        service = subprocess.Popen([str(word) for word in self.inside(
            root, *entry, *daemon(coordinator)["args"], user=user)], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(service.kill)
        ready = self.inside(root, *daemon(coordinator)["readinessProbe"]["exec"]["command"], user=user)
        wait_until(lambda: service.poll() is not None or subprocess.run(
            ready, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60).returncode == 0,
            60, "the coordinator")
        self.run_it(*self.inside(root, "batchflowctl", "drain", user=user))
        said, _ = service.communicate(timeout=60)
        self.assertEqual(service.returncode, 0, said)


if __name__ == "__main__":
    unittest.main()
