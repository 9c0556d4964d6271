"""The steps of tools/packaging/Containerfile, without a container engine: each stage is a root folder
that debootstrap made. Then the image's coordinator runs there, by the manifests' commands. A long
test, as all of the service is compiled."""

import os
import re
import shutil
import subprocess
import unittest

from manifests import ROOT, daemon, instructions, node_texts, pod, workloads
from root_folders import RootFolders
from support import wait_until, write_rows
from test_cluster import free_port

class Container(RootFolders):
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
