"""The temporary folder of functions: what can be written there, that it is bounded, seen by one
process and gone with it, and that a function writes nowhere else."""

import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

from support import CTL, DAEMON, HERE, Served, lives, needs, value_at, wait_until

MIB = 1 << 20
FOLDER_MIB = 10  # a quarter of `memory` below
MARK = "batchflow-left-behind"
# An interpreter that other users may start, too.
PYTHON = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable


def starts(*command):
    try:
        return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              timeout=60).returncode == 0
    except FileNotFoundError:
        return False


class Functions(Served):
    ROWS, MEMORY = 64, "640mib"
    BEFORE = AS = ()  # by which the daemon is started, and scripts of its user

    @property
    def ARGUMENTS(self):
        node = self.folder / "node.yaml"
        node.write_text("{kind: node, workers: 2, steps: {timeout: 20s, memory: 40mib}}")
        return ("--config", str(node))

    def script(self, code, pipeline="[work]"):
        """Prints what the pipeline makes of samples, each result once."""
        file = self.folder / "script.py"
        file.write_text(textwrap.dedent("""
            import batchflow, errno, json, os, numpy as np, resource, tempfile
            """) + textwrap.dedent(code) + textwrap.dedent(f"""
            if __name__ == "__main__":
                loader = batchflow.DataLoader("rows", 16, pipeline={pipeline}, output="numpy", epochs=1)
                print(json.dumps(sorted({{tuple(row.tolist()) for batch in loader for row in batch[0]}})))
            """))
        return subprocess.run([*self.AS, PYTHON, str(file)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=120, text=True)

    def made(self, code, pipeline="[work]"):
        done = self.script(code, pipeline)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def one(self, code):
        """What a function makes, of all samples the same."""
        made = self.made(code)
        self.assertEqual(len(made), 1, made)
        return made[0]

    def no_folder(self):
        return [one["folder_problem"] for one in self.daemon.status()["plugins"]]


LIMIT = """
    @batchflow.step(output=("int64", (1,)))
    def work(row):
        return np.array([resource.getrlimit(resource.RLIMIT_DATA)[0]])
    """
# `memory` without the stack, and with what interpreters reserve.
DATA = (40 - 8 + 64) * MIB
AREAS_MOST = MIB


@needs("numpy")
class Folder(Functions):
    def setUp(self):
        super().setUp()
        self.one("""
            @batchflow.step(output=("int64", (1,)))
            def work(row):
                return np.zeros(1, np.int64)
            """)
        problem, = self.no_folder()
        if problem:
            self.skipTest(f"functions have no folder here: {problem}")

    def test_all_that_tempfile_makes_can_be_written_and_read(self):
        self.assertEqual(self.one("""
            import shutil

            @batchflow.step(output=("int64", (9,)))
            def work(row):
                with tempfile.NamedTemporaryFile() as file:
                    file.write(b"12")
                    file.flush()
                    with open(file.name, "rb") as again:
                        named = int(again.read())
                with tempfile.TemporaryFile() as file:
                    file.write(b"34")
                    file.seek(0)
                    unnamed = int(file.read())
                with tempfile.TemporaryDirectory() as folder:
                    os.makedirs(f"{folder}/a/b")
                    with open(f"{folder}/a/b/first", "w") as file:
                        print(56, file=file)
                    os.rename(f"{folder}/a/b/first", f"{folder}/a/b/second")
                    os.link(f"{folder}/a/b/second", f"{folder}/a/b/third")
                    os.symlink(f"{folder}/a/b/third", f"{folder}/fourth")
                    with open(f"{folder}/fourth") as file:
                        linked = int(file.read())
                number, path = tempfile.mkstemp()
                os.write(number, bytes(1000))
                os.ftruncate(number, 78)
                os.close(number)
                cut = os.stat(path).st_size
                os.unlink(path)
                with tempfile.TemporaryDirectory() as folder:
                    mapped = np.memmap(f"{folder}/mapped", np.uint8, "w+", shape=(90,))
                    mapped[:] = 1
                    mapped.flush()
                    shutil.copytree(folder, f"{tempfile.gettempdir()}/copy")
                    copied = np.fromfile(f"{tempfile.gettempdir()}/copy/mapped", np.uint8)
                shutil.rmtree(f"{tempfile.gettempdir()}/copy")
                with open(os.devnull, "w") as null:
                    null.write("nothing")
                places = {os.environ[name] for name in ("TMPDIR", "TMP", "TEMP")}
                return np.array([named, unnamed, linked, cut, int(copied.sum()), len(copied),
                                 len(os.listdir(tempfile.gettempdir())),
                                 places == {tempfile.gettempdir()},
                                 os.stat(tempfile.gettempdir()).st_mode & 0o777])
            """), [12, 34, 56, 78, 90, 90, 0, 1, 0o700])

    def test_the_example_of_the_page(self):
        page = (HERE.parent.parent / "docs" / "steps.md").read_text()
        block, = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
        self.assertEqual(self.made(block, "[by_name]"),
                         [[value_at(key, i) for i in range(16)] for key in range(self.ROWS)])

    def test_each_process_has_its_own(self):
        # Each function has processes of its own.
        self.assertEqual(self.made("""
            @batchflow.step(output=("int64", (1,)))
            def writes(row):
                with open(f"{tempfile.gettempdir()}/one", "w") as file:
                    file.write("seen by its own process")
                return np.array([len(os.listdir(tempfile.gettempdir()))])

            @batchflow.step(output=("int64", (2,)))
            def looks(row):
                return np.array([row[0], len(os.listdir(tempfile.gettempdir()))])
            """, "[writes, looks]"), [[1, 0]])

    def test_it_is_full_at_a_quarter_of_the_memory_and_has_room_again(self):
        self.assertEqual(self.one("""
            @batchflow.step(output=("int64", (4,)))
            def work(row):
                folder = tempfile.gettempdir()

                def until_it_is_full(write):
                    for i in range(100000):
                        try:
                            write(f"{folder}/{i}")
                        except OSError as error:
                            assert error.errno == errno.ENOSPC, error
                            break
                    for name in os.listdir(folder):
                        os.unlink(f"{folder}/{name}")
                    return i

                def large(path):
                    with open(path, "wb") as file:
                        file.write(bytes(1 << 20))

                def empty(path):
                    os.close(os.open(path, os.O_CREAT | os.O_WRONLY))

                size = os.statvfs(folder)
                return np.array([until_it_is_full(large), until_it_is_full(empty),
                                 until_it_is_full(large), size.f_blocks * size.f_frsize])
            """), [FOLDER_MIB, FOLDER_MIB * 64 - 1, FOLDER_MIB, FOLDER_MIB * MIB])

    def test_one_that_fills_it_is_told_how_much_it_may_have(self):
        code = """
            @batchflow.step{}
            def work(row):
                with tempfile.NamedTemporaryFile() as file:
                    for i in range(20):
                        file.write(bytes(1 << 20))
                    file.flush()
                return row[:1]
            """
        self.assertRegex(self.script(code.format("")).stderr,
                         r"OSError: .*No space left on device.* \(its temporary folder may have 10 MiB, "
                         r"and what is not removed stays in it; give it more: it has a quarter of "
                         r"memory= of batchflow.step\)")
        self.made(code.format("(memory='96mib')"))

    def test_its_bytes_are_a_part_of_the_memory(self):
        limit, = self.one(LIMIT)
        self.assertLessEqual(limit, DATA - FOLDER_MIB * MIB)
        self.assertGreater(limit, DATA - FOLDER_MIB * MIB - AREAS_MOST)
        # Of two functions, that of setUp and this one, for two workers each.
        self.assertEqual(self.daemon.status()["steps_bytes"], 2 * 2 * 40 * MIB)

    def test_it_is_gone_after_its_process_also_when_the_service_is_killed(self):
        code = f"""
            @batchflow.step(output=("int64", (2,)))
            def work(row):
                path = f"{{tempfile.gettempdir()}}/{MARK}"
                first = not hasattr(np, "seen")
                np.seen = True
                there = first and os.path.exists(path)
                with open(path, "w") as file:
                    file.write("a" * 100000)
                return np.array([there, len(os.listdir(tempfile.gettempdir()))])
            """
        self.assertEqual(self.one(code), [0, 1])
        found = subprocess.run(["pgrep", "-P", str(self.daemon.process.pid)], capture_output=True,
                               text=True)
        workers = [int(one) for one in found.stdout.split()]
        self.assertGreater(len(workers), 0)
        self.daemon.kill()
        wait_until(lambda: not any(map(lives, workers)), 30, "the end of the processes")
        self.assertEqual([], list((self.folder / "state" / "temporary").iterdir()))
        for place in (self.folder, Path("/dev/shm"), Path(tempfile.gettempdir())):
            self.assertEqual([], list(place.glob(f"**/{MARK}") if place == self.folder
                                      else place.glob(f"*{MARK}*")), place)
        self.daemon.start()
        self.assertEqual(self.one(code), [0, 1])

    def test_nothing_can_be_written_elsewhere(self):
        outside = self.folder / "outside"
        outside.mkdir()
        (outside / "file").write_text("as it was")
        os.mkfifo(outside / "pipe")
        for path, mode in ((outside, 0o777), (outside / "file", 0o666), (outside / "pipe", 0o666)):
            path.chmod(mode)
        shm = set(os.listdir("/dev/shm"))
        before = (outside / "file").stat()
        # Both ends are held, so that a write to the pipe would not wait for a reader.
        pipe = os.open(outside / "pipe", os.O_RDWR | os.O_NONBLOCK)
        self.addCleanup(os.close, pipe)
        made = self.one(f"""
            import ctypes, fcntl, socket

            OUT, SOCKET = {str(outside)!r}, {self.daemon.socket!r}
            def call(name, *arguments):
                libc = ctypes.CDLL(None, use_errno=True)
                if getattr(libc, name)(*arguments) < 0:
                    raise OSError(ctypes.get_errno(), name)

            def with_open(path, use):
                file = os.open(path, os.O_RDONLY)
                try:
                    use(file)
                finally:
                    os.close(file)

            def attempts(own):
                yield lambda: open(OUT + "/new", "w")
                yield lambda: open("/proc/self/root" + OUT + "/new", "w")
                yield lambda: open(f"/proc/{{os.getppid()}}/root{{OUT}}/new", "w")
                yield lambda: open(f"/proc/{{os.getppid()}}/cwd{{OUT}}/new", "w")
                yield lambda: open("/proc/1/root" + OUT + "/new", "w")
                yield lambda: open(own + "/.." + "/new", "w")
                yield lambda: open(OUT + "/file", "r+")
                yield lambda: open(OUT + "/file", "a")
                yield lambda: os.open(OUT + "/file", os.O_RDONLY | os.O_TRUNC)
                yield lambda: os.open(OUT, os.O_RDWR | os.O_TMPFILE)
                yield lambda: os.open(OUT + "/pipe", os.O_RDWR | os.O_NONBLOCK)
                yield lambda: os.open(OUT + "/pipe", os.O_WRONLY | os.O_NONBLOCK)
                yield lambda: os.truncate(OUT + "/file", 0)
                yield lambda: os.mkdir(OUT + "/new")
                yield lambda: os.unlink(OUT + "/file")
                yield lambda: os.rename(OUT + "/file", OUT + "/new")
                yield lambda: os.rename(OUT + "/file", own + "/in")
                yield lambda: os.rename(own + "/mine", OUT + "/new")
                yield lambda: os.link(OUT + "/file", OUT + "/new")
                yield lambda: os.link(OUT + "/file", own + "/in")
                yield lambda: os.link(own + "/mine", OUT + "/new")
                yield lambda: os.symlink("/", OUT + "/new")
                yield lambda: open(own + "/link", "w")
                yield lambda: open(own + "/folder/new", "w")
                yield lambda: os.chmod(OUT + "/file", 0o600)
                yield lambda: os.fchmod(0, 0o666)
                yield lambda: os.chmod("/proc/self/fd/0", 0o666)
                yield lambda: os.utime(OUT + "/file", (1, 1))
                yield lambda: os.chown(OUT + "/file", os.getuid(), os.getgid())
                yield lambda: os.setxattr(OUT + "/file", "user.a", b"1")
                yield lambda: os.mkfifo(own + "/pipe")
                yield lambda: os.mknod(own + "/device", 0o20666, os.makedev(1, 3))
                yield lambda: open("/dev/shm/batchflow-new", "w")
                yield lambda: open("/dev/zero", "w")
                yield lambda: open("/dev/full", "w")
                yield lambda: open("/proc/self/oom_score_adj", "w")
                yield lambda: open("/proc/self/mem", "r+b")
                yield lambda: open(f"/proc/{{os.getppid()}}/mem", "r+b")
                yield lambda: open(f"/proc/{{os.getppid()}}/mem", "rb")
                yield lambda: open(f"/proc/{{os.getppid()}}/fd/0")
                yield lambda: open("/proc/self/uid_map", "w")
                yield lambda: with_open(OUT + "/file", lambda file: fcntl.flock(file, fcntl.LOCK_EX))
                yield lambda: with_open(OUT + "/file", lambda file: fcntl.lockf(file, fcntl.LOCK_SH))
                yield lambda: socket.socket(socket.AF_UNIX).connect(SOCKET)
                yield lambda: os.kill(os.getppid(), 0)
                yield lambda: os.memfd_create("more")
                yield lambda: call("umount2", own.encode(), 2)
                yield lambda: call("mount", b"none", own.encode(), b"tmpfs", 0, b"size=1g")
                yield lambda: call("mount", b"", b"/", b"", 32 | 4096, b"")
                yield lambda: call("unshare", 0x10020000)
                yield lambda: with_open("/proc/self/ns/mnt", lambda file: call("setns", file, 0))
                yield lambda: call("chroot", own.encode())
                yield lambda: call("syscall", 442, -100, b"/", 0x8000, bytes(32), 32)
                yield lambda: call("syscall", 425, 8, bytes(120))

            @batchflow.step(output=("int64", (64,)))
            def work(row):
                own = tempfile.gettempdir()
                open(own + "/mine", "w").close()
                for link, to in (("link", OUT + "/file"), ("folder", OUT)):
                    if not os.path.lexists(own + "/" + link):
                        os.symlink(to, own + "/" + link)
                found = np.zeros(64, np.int64)
                for i, attempt in enumerate(attempts(own)):
                    try:
                        attempt()
                        found[i] = -1
                    except OSError as error:
                        found[i] = error.errno
                return found
            """)
        self.assertNotIn(-1, made)
        self.assertEqual(made.index(0), 54)  # all of them were tried
        self.assertEqual(sorted(os.listdir(outside)), ["file", "pipe"])
        after = (outside / "file").stat()
        self.assertEqual((outside / "file").read_text(), "as it was")
        for name in ("st_mode", "st_uid", "st_mtime_ns", "st_nlink", "st_ino"):
            self.assertEqual(getattr(after, name), getattr(before, name), name)
        with self.assertRaises(BlockingIOError):
            os.read(pipe, 1)
        self.assertEqual(set(os.listdir("/dev/shm")) - shm, set())
        self.assertEqual([], list((self.folder / "state" / "temporary").iterdir()))

    def test_a_write_elsewhere_says_where_it_may_write(self):
        self.assertRegex(self.script(f"""
            @batchflow.step
            def work(row):
                open("{self.folder}/new", "w")
                return row
            """).stderr, r"script.py:\d+: OSError: .*a step can write to its temporary folder alone "
                         r"\(.*/state/temporary\)")

    def test_what_a_function_is_measured_by_has_one_too(self):
        (self.folder / "makes.py").write_text(textwrap.dedent("""
            import os, tempfile
            FOLDER = tempfile.mkdtemp()
            with open(FOLDER + "/file", "w") as file:
                file.write("made when it is imported")
            LARGE = bytearray(80 << 20)
            """))
        self.assertEqual(self.one("""
            import makes

            @batchflow.step(output=("int64", (2,)))
            def work(row):
                return np.array([os.path.getsize(makes.FOLDER + "/file"), len(makes.LARGE) >> 20])
            """), [24, 80])
        self.assertEqual([], list((self.folder / "xdg_state_home" / "batchflow" / "temporary").iterdir()))


OTHER = ("setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups")


@needs("numpy")
@unittest.skipUnless(os.geteuid() == 0 and starts(*OTHER, "test", "-x", DAEMON),
                     "only root can become another user")
class FolderOfAnotherUser(Folder):
    """Root needs no user namespace for its mounts, and others do."""

    BEFORE = AS = OTHER

    @property
    def ARGUMENTS(self):
        arguments = super().ARGUMENTS
        for path in (self.folder, *self.folder.rglob("*")):
            os.chown(path, 54321, 54321)
        return arguments


REFUSES = ("unshare", "--user", "--map-root-user", "sh", "-c",
           'echo 0 > /proc/sys/user/max_mnt_namespaces && exec "$@"', "sh")


@needs("numpy")
@unittest.skipUnless(starts(*REFUSES, "true"), "no user namespace may be made here")
class NoFolder(Functions):
    """On a machine that refuses mounts of one's own."""

    BEFORE = REFUSES
    WHY = "no mount namespace: sysctl user.max_*_namespaces allows no more"

    def test_that_is_said_where_it_is_missed_and_in_the_status(self):
        for make in ("TemporaryFile()", "NamedTemporaryFile()", "mkstemp()", "mkdtemp()"):
            with self.subTest(make):
                done = self.script(f"""
                    @batchflow.step
                    def work(row):
                        tempfile.{make}
                        return row
                    """)
                self.assertNotEqual(done.returncode, 0)
                self.assertRegex(done.stderr, r"script.py:\d+: PermissionError: .*a step can write no file "
                                              r"and make no folder here, not even a temporary one "
                                              rf"\({re.escape(self.WHY)}\);"
                                              " hold in memory what it needs, as in io.BytesIO")
        self.one("""
            @batchflow.step(output=("int64", (1,)))
            def work(row):
                return np.zeros(1, np.int64)
            """)
        self.assertEqual(self.no_folder(), [self.WHY])
        told = subprocess.run([CTL, "--service", self.daemon.socket, "status"], check=True,
                              stdout=subprocess.PIPE, text=True, timeout=60).stdout
        self.assertIn(f"no temporary folder ({self.WHY})", told)

    def test_modules_that_look_for_one_can_be_imported_and_it_has_all_of_its_memory(self):
        self.assertEqual(self.one("""
            @batchflow.step(output=("int64", (1,)))
            def work(row):
                with open(os.devnull, "w"):
                    return np.array([len(tempfile.gettempdir())])
            """), [len("/tmp")])
        limit, = self.one(LIMIT)
        self.assertLessEqual(limit, DATA)
        self.assertGreater(limit, DATA - AREAS_MOST)

    def test_it_can_write_nowhere(self):
        self.assertEqual(self.one(f"""
            @batchflow.step(output=("int64", (4,)))
            def work(row):
                found = []
                for attempt in (lambda: open("{self.folder}/new", "w"), lambda: os.mkdir("/tmp/new"),
                                lambda: os.unlink("{self.folder}/node.yaml"),
                                lambda: os.truncate("{self.folder}/node.yaml", 0)):
                    try:
                        attempt()
                        found.append(-1)
                    except OSError as error:
                        found.append(error.errno)
                return np.array(found)
            """), [1, 1, 1, 1])


if __name__ == "__main__":
    unittest.main()
