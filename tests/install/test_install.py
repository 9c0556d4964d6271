"""What `cmake --install` makes: a whole tree that works wherever it lies. It is installed, moved, and
used there with nothing of the build in the environment."""

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

SOURCE = Path(__file__).parent.parent.parent
BUILD = Path(os.environ["BATCHFLOW_BUILD"])


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="batchflow-install-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.first = cls.folder / "first"
        subprocess.run(["cmake", "--install", BUILD, "--prefix", cls.first], check=True,
                       stdout=subprocess.DEVNULL, timeout=120)
        cls.tree = cls.folder / "moved"
        cls.first.rename(cls.tree)

    def environment(self, **more):
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(("BATCHFLOW", "PYTHON", "XDG"))}
        return {**kept, "PATH": f"{self.tree}/bin{os.pathsep}{os.environ['PATH']}",
                "XDG_RUNTIME_DIR": str(self.folder), "XDG_STATE_HOME": str(self.folder),
                "PYTHONDONTWRITEBYTECODE": "1", **more}

    def run_it(self, *command, code=0, **more):
        done = subprocess.run([str(one) for one in command], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=120, cwd=self.folder,
                              env=self.environment(**more))
        self.assertEqual(done.returncode, code, f"{command}: {done.stdout[-4000:]}")
        return done.stdout

    def library_folder(self):
        (library,) = self.tree.rglob("libbatchflow_client.so.1")
        return library.parent

    def test_no_file_names_the_place_of_its_sources_its_build_or_its_first_prefix(self):
        places = [str(place).encode() for place in (SOURCE, BUILD, self.first)]
        files = [path for path in self.tree.rglob("*") if path.is_file()]
        self.assertGreater(len(files), 60)
        for path in files:
            content = path.read_bytes()
            for place in places:
                at = content.find(place)
                self.assertEqual(at, -1, f"{path}: {content[max(at - 40, 0):at + 80]!r}")

    def test_each_program_has_a_man_page_and_completions(self):
        share = self.tree / "share"
        for program in ("batchflowd", "batchflowctl", "batchflow-sim", "batchflow-live"):
            page = (share / "man" / "man1" / f"{program}.1").read_text()
            name = program.replace("-", "\\-")
            self.assertIn(f".SH NAME\n{name} \\- ", page)
            self.assertIn("\\-\\-help", page)
            self.assertTrue((share / "zsh" / "site-functions" / f"_{program}").read_text()
                            .startswith(f"#compdef {program}\n"))
            completion = share / "bash-completion" / "completions" / program
            self.assertEqual(self.run_it("bash", "-n", completion), "")
        said = self.run_it("bash", "-c", f"source {completion.parent / 'batchflowctl'}\n"
                           "COMP_WORDS=(batchflowctl policy s); COMP_CWORD=2; _batchflowctl\n"
                           "echo ${COMPREPLY[@]}\n"
                           "COMP_WORDS=(batchflowctl --serv); COMP_CWORD=1; _batchflowctl\n"
                           "echo ${COMPREPLY[@]}\n")
        self.assertEqual(said.splitlines(), ["set shadow", "--service"])

    def test_the_tree_is_whole(self):
        for name in ("bin/batchflowd", "bin/batchflowctl", "bin/batchflow-live",
                     "bin/batchflow-step-worker", "bin/batchflow-policy-child", "include/batchflow.h",
                     "include/batchflow_step.h", "include/batchflow_step.hpp",
                     "lib/systemd/system/batchflowd.service", "lib/sysusers.d/batchflow.conf",
                     "share/batchflow/batchflow.sbatch",
                     "share/batchflow/configs/kubernetes/coordinator.yaml",
                     "share/batchflow/configs/grafana/alerts.yaml", "share/doc/batchflow/operations.md",
                     "share/doc/batchflow/LICENSE", "share/batchflow/configs/nodes/default.yaml",
                     "share/batchflow/configs/grafana/batchflow.json",
                     "lib/python3/dist-packages/batchflow/__init__.py"):
            self.assertTrue((self.tree / name).exists(), name)
        for folder in ("battery", "clusters", "overlays", "pipelines", "scenarios", "scores", "studies",
                       "workloads"):
            here = sorted(path.name for path in (SOURCE / "configs" / folder).iterdir())
            there = self.tree / "share" / "batchflow" / "configs" / folder
            self.assertEqual(sorted(path.name for path in there.iterdir()), here)
        for program in ("batchflowd", "batchflowctl", "batchflow-sim", "batchflow-live"):
            self.assertRegex(self.run_it(program, "--version"), r"\d+\.\d+", program)

    def test_the_demo(self):
        said = self.run_it("batchflow-live", "--pictures", "200", "--compute-ms", "0,5", "--check")
        self.assertIn("default", said)
        said = self.run_it("batchflow-sim", "run", "four-jobs", "--policy",
                           "preset=independent,default")
        self.assertIn("independent", said)

    def test_errors_list_what_is_installed(self):
        said = self.run_it("batchflowd", "--dataset", f"{self.folder},pipeline=nonsense", code=2)
        self.assertRegex(said, "of bytes, imagenet-augmented, .*, tokens")
        said = self.run_it("batchflow-sim", "run", "--cluster", "nonsense", "--workload",
                           "w1-imagenet", code=2)
        self.assertRegex(said, "of coordl, dgx, .*, thetagpu")
        # Programs alone say what they miss.
        alone = self.folder / "alone" / "bin"
        alone.mkdir(parents=True)
        shutil.copy(self.tree / "bin" / "batchflowd", alone)
        said = self.run_it(alone / "batchflowd", "--dataset", f"{self.folder},pipeline=bytes",
                           code=2)
        self.assertIn(f"none are in {alone.parent}/share/batchflow/configs: install", said)

    def test_policy_plugins_are_built_with_its_headers_and_checked(self):
        for kind in ("dispatch", "allocation"):
            name = f"my-{kind}"
            said = self.run_it("batchflow-sim", "policy", "new", name, "--kind", kind)
            build = [line for line in said.splitlines() if line.startswith("cmake ")]
            self.assertEqual(len(build), 2)
            self.assertIn(f"-DCMAKE_PREFIX_PATH={self.tree}", build[0])
            for command in build:
                self.run_it("sh", "-c", command)
            plugin = self.folder / name / "build" / f"{name}.so"
            self.assertIn(name, self.run_it("batchflow-sim", "policy", "show", name, "--plugin",
                                            plugin))
        self.assertIn("It passed.", self.run_it(
            "batchflow-sim", "check", self.folder / "my-dispatch" / "build" / "my-dispatch.so"))
        self.run_it("ctest", "--test-dir", self.folder / "my-dispatch" / "build")

    def test_the_units_command(self):
        unit = (self.tree / "lib/systemd/system/batchflowd.service").read_text()
        (command,) = [line.partition("=")[2] for line in unit.splitlines()
                      if line.startswith("ExecStart=")]
        words = shlex.split(command)
        self.assertEqual(words[1:], ["--config", "/etc/batchflow/node.yaml"])
        words[2] = str(self.folder / "node.yaml")
        (self.folder / "rows").mkdir()
        (self.folder / "rows" / "some.bin").write_bytes(b"batchflow" * 100)
        shutil.copy(self.tree / "share/batchflow/configs/nodes/default.yaml", words[2])
        text = Path(words[2]).read_text()
        text = text.replace("datasets: []", f"datasets: [{{path: {self.folder}/rows}}]")
        text = text.replace("port: 9837", "port: -1")
        Path(words[2]).write_text(text)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
            told.bind(str(self.folder / "notify"))
            told.settimeout(60)
            with open(self.folder / "log", "wb") as log:
                service = subprocess.Popen(words, stderr=log, cwd=self.folder, env=self.environment(
                    NOTIFY_SOCKET=str(self.folder / "notify")))
            try:
                while b"READY=1" not in told.recv(4096):
                    pass
                while "rows" not in self.run_it("batchflowctl", "datasets"):  # it is being opened
                    time.sleep(0.05)
            finally:
                service.send_signal(signal.SIGTERM)
                code = service.wait(60)
        self.assertEqual(code, 0, (self.folder / "log").read_text())

    @unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not installed")
    def test_the_unit_is_hardened(self):
        unit = self.tree / "lib/systemd/system/batchflowd.service"
        # Exposure of at most 3.0, of 10.
        said = self.run_it("systemd-analyze", "security", "--offline=true", "--threshold=30",
                           "--no-pager", unit)
        self.assertRegex(said, r"Overall exposure level for batchflowd.service: [0-3]\.\d")

    def test_the_client_library_by_pkg_config(self):
        flags = self.run_it("pkg-config", "--cflags", "--libs", "batchflow-client",
                            PKG_CONFIG_PATH=f"{self.library_folder()}/pkgconfig").split()
        self.assertIn(str(self.tree), " ".join(flags))
        for name in ("example", "producer", "store"):
            self.run_it("cc", SOURCE / f"runtime/client/{name}.c", *flags, "-o", name)
            self.run_it(self.folder / name, code=2, LD_LIBRARY_PATH=str(self.library_folder()))

    def test_the_client_library_by_cmake(self):
        (self.folder / "user").mkdir()
        (self.folder / "user" / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(user C)\n"
            "find_package(batchflow-client REQUIRED)\n"
            f"add_executable(user {SOURCE}/runtime/client/example.c)\n"
            "target_link_libraries(user PRIVATE batchflow::client)\n")
        self.run_it("cmake", "-S", "user", "-B", "user/build", "-G", "Ninja",
                    f"-DCMAKE_PREFIX_PATH={self.tree}")
        self.run_it("cmake", "--build", "user/build")
        self.run_it(self.folder / "user" / "build" / "user", code=2)

    def test_the_python_package(self):
        said = self.run_it(sys.executable, "-c", "import batchflow, batchflow.embedded as e\n"
                           "import batchflow.library as l\n"
                           "print(l.library()._name)\nprint(e.daemon())",
                           PYTHONPATH=f"{self.tree}/lib/python3/dist-packages")
        library, daemon = (Path(line) for line in said.splitlines())
        self.assertEqual(library.resolve().parent, self.library_folder())
        self.assertEqual(daemon.resolve(), self.tree / "bin" / "batchflowd")

    def test_steps_are_built_with_its_headers(self):
        (self.folder / "steps").mkdir()
        said = subprocess.run(["batchflowctl", "step", "new", "my-noise"], env=self.environment(),
                              cwd=self.folder / "steps", stdout=subprocess.PIPE, text=True,
                              check=True).stdout
        self.assertIn(f"{self.tree}/include", said)


if __name__ == "__main__":
    unittest.main()
