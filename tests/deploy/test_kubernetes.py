"""The manifests agree with one another, with batchflowd and with the container file; and a
coordinator and an agent that are started as they say pass their probes."""

import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import unittest
import urllib.request
from pathlib import Path

import yaml
from manifests import (ROOT, daemon, documents, instructions, node_file, node_texts, of_kind, pod,
                       size, workloads)
from support import CTL, DAEMON, Folder, wait_until, write_rows
from test_cluster import JOB, ROWS, WIDTH, Job, Node, free_port

TOKEN = "0123456789abcdef" * 4


def said_by(*command):
    return subprocess.run([str(one) for one in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=60)


class Manifests(unittest.TestCase):
    def test_there_are_three_kinds_of_pods(self):
        self.assertEqual(set(workloads()), {"coordinator", "gpu-agent", "cpu-agent"})

    def test_options_are_those_of_the_programs(self):
        known = set(re.findall(r"--[a-z-]+", said_by(DAEMON, "--help").stdout))
        commands = set(re.findall(r"^  ([a-z]+) ", said_by(CTL, "--help").stdout, re.MULTILINE))
        for _, workload in workloads().items():
            options = [word for word in daemon(workload)["args"] if word.startswith("-")]
            self.assertIn("--config", options)
            self.assertLessEqual(set(options), known)
            probes = [daemon(workload)[name] for name in ("readinessProbe", "livenessProbe")]
            for probe in probes:
                words = " ".join(probe.get("exec", {}).get("command", [])).split()
                if words:
                    at = words.index("--service")
                    self.assertIn(words[at + 2], commands)
                    self.assertEqual(words[at + 1], yaml.safe_load(node_file(workload))["socket"])

    def test_a_service_takes_the_node_files(self):
        misspelt = node_texts()["coordinator.yaml"].replace("workers", "wrokers")
        for text, code in [*((text, 0) for text in node_texts().values()), (misspelt, 2)]:
            with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
                file.write(text)
                file.flush()
                answer = said_by(DAEMON, "--check", file.name)
            self.assertEqual(answer.returncode, code, answer.stdout)

    def test_memory_is_below_its_limit(self):
        for _, workload in workloads().items():
            resources = daemon(workload)["resources"]
            self.assertEqual(resources["requests"]["memory"], resources["limits"]["memory"])
            memory = size(yaml.safe_load(node_file(workload))["memory"])
            # What the service may take beyond it, and what the kernel charges it for.
            self.assertLessEqual(memory + memory // 16 + 2**28, size(resources["limits"]["memory"]))
            in_memory = [one for one in pod(workload)["volumes"]
                         if one.get("emptyDir", {}).get("medium") == "Memory"]
            self.assertEqual([one["name"] for one in in_memory], ["token"])

    def test_there_is_a_core_for_each_worker(self):
        for _, workload in workloads().items():
            self.assertEqual(daemon(workload)["resources"]["requests"]["cpu"],
                             str(yaml.safe_load(node_file(workload))["workers"]))

    def test_ports_agree(self):
        coordinator = workloads()["coordinator"]
        node = yaml.safe_load(node_file(coordinator))
        expected = {"cluster": node["tcp"]["port"], "http": node["http"]["port"]}
        ports = {one["name"]: one["containerPort"] for one in daemon(coordinator)["ports"]}
        self.assertEqual(ports, expected)
        service = of_kind("Service")[coordinator["spec"]["serviceName"]]
        self.assertEqual(service["spec"]["clusterIP"], "None")
        self.assertEqual({one["name"]: one["port"] for one in service["spec"]["ports"]}, expected)
        self.assertEqual({one["targetPort"] for one in service["spec"]["ports"]}, set(expected))
        self.assertEqual(service["spec"]["selector"],
                         coordinator["spec"]["selector"]["matchLabels"])
        notes = coordinator["spec"]["template"]["metadata"]["annotations"]
        self.assertEqual(notes["prometheus.io/port"], str(expected["http"]))
        asked = daemon(coordinator)["livenessProbe"]["httpGet"]
        self.assertEqual(asked, {"path": "/healthz", "port": "http"})
        (policy,) = of_kind("NetworkPolicy").values()
        opened = [one["port"] for rule in policy["spec"]["ingress"]
                  for one in rule.get("ports", [])]
        self.assertEqual(opened, [expected["http"]])
        for component, workload in workloads().items():
            cluster = yaml.safe_load(node_file(workload))["cluster"]
            join = f"tcp://{service['metadata']['name']}:{expected['cluster']}"
            self.assertEqual(cluster.get("join"), None if component == "coordinator" else join)

    def test_pods_have_longer_to_end_than_jobs(self):
        for _, workload in workloads().items():
            drain = yaml.safe_load(node_file(workload)).get("drain", "30s")
            self.assertGreaterEqual(pod(workload)["terminationGracePeriodSeconds"],
                                    int(drain.rstrip("s")) + 10)

    def test_selectors_priorities_and_volumes_are_there(self):
        priorities = set(of_kind("PriorityClass")) | {"system-node-critical"}
        for component, workload in workloads().items():
            labels = workload["spec"]["template"]["metadata"]["labels"]
            self.assertEqual(workload["spec"]["selector"]["matchLabels"], labels)
            self.assertEqual(labels, workload["metadata"]["labels"])
            self.assertIn(pod(workload)["priorityClassName"], priorities)
            volumes = {one["name"]: one for one in pod(workload)["volumes"]}
            volumes.update({one["metadata"]["name"]: one
                            for one in workload["spec"].get("volumeClaimTemplates", [])})
            containers = [*pod(workload)["initContainers"], daemon(workload)]
            mounted = {one["name"] for container in containers
                       for one in container["volumeMounts"]}
            self.assertEqual(mounted, set(volumes))
            node = yaml.safe_load(node_file(workload))
            places = {one["name"]: Path(one["mountPath"])
                      for one in daemon(workload)["volumeMounts"]}
            self.assertEqual(Path(node["socket"]).parent, places["socket"])
            self.assertEqual(Path(node["state"]), places["state"])
            self.assertEqual(Path(node["cluster"]["token_file"]).parent, places["token"])
            for one in node.get("datasets", []):
                self.assertIn(places["data"], Path(one["path"]).parents)

    def test_jobs_find_the_agent_of_their_node(self):
        (job,) = of_kind("Job").values()
        agent = workloads()["gpu-agent"]
        node = yaml.safe_load(node_file(agent))
        self.assertEqual({one["name"]: one["value"] for one in daemon(job)["env"]},
                         {"BATCHFLOW_SERVICE": node["socket"]})
        for name in ("socket", "data"):
            ours, theirs = [[one for one in daemon(each)["volumeMounts"] if one["name"] == name][0]
                            for each in (job, agent)]
            self.assertEqual(ours["mountPath"], theirs["mountPath"])
            self.assertTrue(ours["readOnly"])
        paths = [[one["hostPath"]["path"] for one in pod(each)["volumes"] if one["name"] == "socket"]
                 for each in (job, agent)]
        self.assertEqual(paths[0], paths[1])
        for key in ("nodeSelector", "tolerations"):
            self.assertEqual(pod(job)[key], pod(agent)[key])

    def test_images_and_users_are_those_of_the_container_file(self):
        version = (ROOT / "VERSION").read_text().split()[0]
        (user,) = [words for name, words in instructions() if name == "USER"]
        for _, workload in workloads().items():
            security = pod(workload)["securityContext"]
            self.assertEqual(f"{security['runAsUser']}:{security['runAsGroup']}", user)
            for container in [*pod(workload)["initContainers"], daemon(workload)]:
                self.assertEqual(container["image"], f"batchflow:{version}")
                rights = container["securityContext"]
                self.assertEqual(rights["capabilities"]["drop"], ["ALL"])
                self.assertFalse(rights["allowPrivilegeEscalation"])
                self.assertTrue(rights["readOnlyRootFilesystem"])


class Process(Node):
    def __init__(self, folder, words):
        self.folder, self.log, self.socket = folder, folder / "log", str(folder / "run/batchflow.sock")
        self.command = [DAEMON, *words]
        self.start()


class Started(Folder):
    """A coordinator and an agent, by the manifests' commands, in a folder that stands for the file
    systems of their containers."""

    def setUp(self):
        super().setUp()
        self.data = self.folder / "data"
        self.data.mkdir()
        write_rows(self.data / "rows.npy", ROWS, WIDTH)
        self.port, self.page = free_port(), free_port()
        # A Secret is a link to a file of root's, which fsGroup lets the group read.
        secret = self.folder / "secret"
        (secret / "..1").mkdir(parents=True)
        (secret / "..1" / "token").write_text(TOKEN)
        (secret / "..1" / "token").chmod(0o440)
        (secret / "..data").symlink_to("..1")
        (secret / "token").symlink_to("..data/token")

    def placed(self, text, component):
        """A text of a manifest, with this test's paths, ports, sizes and user."""
        folder = self.folder / component
        for there, here in {
                r"/run/batchflow\b": folder / "run", r"/run/token\b": folder / "token",
                r"/var/lib/batchflow\b": folder / "state", r"/etc/batchflow\b": folder / "etc",
                r"/secret\b": self.folder / "secret",
                r"/data/imagenet/train, pipeline: imagenet-train": self.data,
                r"batchflow-coordinator:9838": f"127.0.0.1:{self.port}",
                r"0\.0\.0\.0, port: 9838": f"127.0.0.1, port: {self.port}",
                r"0\.0\.0\.0, port: 9837": f"127.0.0.1, port: {self.page}",
                r"^9837$": os.getuid(), r"memory: \w+": "memory: 384mib",
                r"workers: \d+": "workers: 1", r"\$\(NODE_NAME\)": "gpu-1"}.items():
            text = re.sub(there, str(here), text)
        return text

    def prepare(self, component):
        """What volumes and init containers make."""
        for name in ("run", "token", "state", "etc/..data"):
            (self.folder / component / name).mkdir(parents=True)
        for name, text in node_texts().items():
            etc = self.folder / component / "etc"
            (etc / "..data" / name).write_text(self.placed(text, component))
            (etc / name).symlink_to(f"..data/{name}")
        for container in pod(workloads()[component])["initContainers"]:
            answer = said_by(*(self.placed(word, component) for word in container["command"]))
            self.assertEqual(answer.returncode, 0, answer.stdout)

    def start(self, component):
        self.prepare(component)
        words = [self.placed(word, component) for word in daemon(workloads()[component])["args"]]
        node = Process(self.folder / component, words)
        self.addCleanup(node.end)
        return node

    def probe(self, component, name):
        command = daemon(workloads()[component])[name]["exec"]["command"]
        done = subprocess.run([self.placed(word, component) for word in command], timeout=60,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env={**os.environ, "PATH": f"{Path(CTL).parent}:{os.environ['PATH']}"})
        return done.returncode == 0

    def alive_and_ready(self, component):
        return [self.probe(component, f"{name}Probe") for name in ("liveness", "readiness")]

    def test_an_agent_is_alive_before_it_is_ready(self):
        self.prepare("gpu-agent")
        self.assertEqual(self.alive_and_ready("gpu-agent"), [False, False])
        shutil.rmtree(self.folder / "gpu-agent")
        self.start("gpu-agent")
        self.assertEqual(self.alive_and_ready("gpu-agent"), [True, False])
        coordinator = self.start("coordinator")
        wait_until(lambda: self.alive_and_ready("gpu-agent") == [True, True], 30, "the agent")
        self.assertTrue(self.probe("coordinator", "readinessProbe"))
        coordinator.end()
        wait_until(lambda: self.alive_and_ready("gpu-agent") == [True, False], 30, "its loss")

    def test_the_page_that_probe_and_scrape_ask(self):
        coordinator = self.start("coordinator")
        asked = daemon(workloads()["coordinator"])["livenessProbe"]["httpGet"]["path"]
        scraped = workloads()["coordinator"]["spec"]["template"]["metadata"]["annotations"]
        for path in (asked, scraped["prometheus.io/path"]):
            with urllib.request.urlopen(f"http://127.0.0.1:{self.page}{path}", timeout=10) as answer:
                self.assertEqual(answer.status, 200)
        self.assertEqual(coordinator.end(signal.SIGTERM), 0)

    def test_jobs_read_through_the_agent(self):
        self.start("coordinator")
        agent = self.start("gpu-agent")
        wait_until(lambda: self.probe("gpu-agent", "readinessProbe"), 30, "the agent")
        keys = Job(agent, code=JOB.replace('"rows"', '"imagenet"')).result()["keys"]
        self.assertEqual(sorted(keys[0]), list(range(ROWS)))

    def test_the_token_is_copied_because_fsgroup_opens_it(self):
        self.start("coordinator").end(signal.SIGTERM)
        copied = self.folder / "coordinator" / "token" / "token"
        self.assertEqual(stat.S_IMODE(copied.stat().st_mode), 0o600)
        refused = said_by(DAEMON, "--config", self.folder / "coordinator/etc/coordinator.yaml",
                          "--cluster-token", self.folder / "secret/token")
        self.assertEqual(refused.returncode, 2, refused.stdout)
        self.assertIn("others can read it", refused.stdout)


class Secrets(unittest.TestCase):
    def test_only_the_owner_may_read_them(self):
        for workload in workloads().values():
            (volume,) = [one for one in pod(workload)["volumes"] if "secret" in one]
            self.assertEqual(volume["secret"]["defaultMode"], 0o400)
            mounts = [one["name"] for one in daemon(workload)["volumeMounts"]]
            self.assertNotIn(volume["name"], mounts)

    def test_no_manifest_has_one(self):
        self.assertNotIn("Secret", {one["kind"] for one in documents()})


if __name__ == "__main__":
    unittest.main()
