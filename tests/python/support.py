"""Shared by the tests of the Python package: a service of their own, data in which every byte is
known, and jobs in processes of their own."""

import ctypes
import functools
import json
import operator
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from array import array
from collections import deque
from pathlib import Path

HERE = Path(__file__).parent
DAEMON = os.environ["BATCHFLOW_DAEMON"]
CTL = os.environ.get("BATCHFLOWCTL", str(Path(DAEMON).parent / "batchflowctl"))


def value_at(row, column):
    return (row + column) * 7


def write_rows(file, rows, width=16):
    """Row k of int64: value_at(k, 0), value_at(k, 1), ..."""
    head = f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({rows}, {width}), }}"
    head = head.ljust((10 + len(head) + 64) // 64 * 64 - 10 - 1) + "\n"
    with open(file, "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
        for k in range(rows):
            out.write(array("q", range(value_at(k, 0), value_at(k, width), 7)).tobytes())


def listens(path):
    with socket.socket(socket.AF_UNIX) as asking:
        try:
            asking.connect(str(path))
        except OSError:
            return False
    return True


def wait_until(holds, seconds=30, what="it"):
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come within {seconds} s")
        time.sleep(0.01)
    return found


def free_port():
    """Below the ports that the kernel gives to connections, so that none of another test takes it
    before a service listens there."""
    while True:
        port = random.SystemRandom().randrange(10000, 32000)
        with socket.socket() as asking:
            try:
                asking.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


def lives(process):
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def interrupt_and(call):
    """A Ctrl-C, and then a call, both in C: Python asks for signals when the call has ended, or at the
    first line of Python that it runs."""
    interrupt = functools.partial(ctypes.PyDLL(None)["raise"], signal.SIGINT)
    deque(map(operator.methodcaller("__call__"), [interrupt, call]), 0)


def processes_in(folder):
    """The command lines that name the folder, of processes beside this one."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if str(folder).encode() in words and int(process.name) != os.getpid():
            found.append(words.replace(b"\0", b" ").decode())
    return found


class Daemon:
    """Ends by itself, too, should a test be killed."""

    def __init__(self, folder, *arguments, memory="512mib", before=()):
        self.socket = str(Path(folder) / "b.sock")
        self._command = [*before, DAEMON, "--socket", self.socket, "--state", str(Path(folder) / "state"),
                         "--memory", memory, "--http", "-1", "--exit-when-idle", "60", *arguments]
        self.log = Path(folder) / "daemon.log"
        self.start()

    def start(self):
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log)
        wait_until(lambda: listens(self.socket), 60, "batchflowd")

    def status(self):
        return status(self.socket)

    def kill(self, number=signal.SIGKILL):
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(60)


def status(path):
    answer = subprocess.run([CTL, "--service", str(path), "status", "--json"], check=True,
                            stdout=subprocess.PIPE, timeout=60)
    return json.loads(answer.stdout)


class Folder(unittest.TestCase):
    """A folder that goes when the test does, and an environment without anything of the user's."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="batchflow-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.before = dict(os.environ)
        self.addCleanup(self._restore)
        for name in ("BATCHFLOW_SERVICE", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR",
                     "MASTER_PORT", "TORCHELASTIC_RUN_ID"):
            os.environ.pop(name, None)
        for name in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME"):
            os.environ[name] = str(self.folder / name.lower())

    def _restore(self):
        os.environ.clear()
        os.environ.update(self.before)


class Served(Folder):
    """`rows`, served by a daemon that BATCHFLOW_SERVICE names."""

    ROWS = 2000
    ARGUMENTS = ()
    BEFORE = ()  # a program and its arguments, by which the daemon is started
    MEMORY = "512mib"

    def setUp(self):
        super().setUp()
        self.data = self.folder / "rows"
        self.data.mkdir()
        write_rows(self.data / "rows.npy", self.ROWS)
        self.daemon = Daemon(self.folder, "--dataset", f"rows={self.data}", *self.ARGUMENTS,
                             memory=self.MEMORY, before=self.BEFORE)
        self.addCleanup(self.daemon.kill)
        os.environ["BATCHFLOW_SERVICE"] = self.daemon.socket

    def check_content(self, batch):
        """Checks that every number of a batch belongs to its keys."""
        rows = batch[0].tolist()
        keys = batch.sample_keys.tolist()
        self.assertEqual(len(rows), len(keys))
        for row, key in zip(rows, keys):
            self.assertEqual(row, [value_at(key, i) for i in range(len(row))])
        return keys

    def own_keys(self, batch):
        """Without fillers, which repeat others."""
        return batch.sample_keys.tolist()[:batch.samples - batch.fillers]

    def assert_whole(self, keys, rows=None):
        self.assertEqual(sorted(keys), list(range(rows or self.ROWS)))


def start_job(name, *arguments, **environment):
    """A function of jobs.py in a process of its own; see `result`."""
    return subprocess.Popen([sys.executable, str(HERE / "jobs.py"), name,
                             *(json.dumps(one) for one in arguments)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env={**os.environ, **environment})


def rest_of(process, seconds=120):
    """What a process still writes to its pipes until it ends: (out, err). communicate() would lose
    the lines that readline() has read ahead."""
    pipes = [process.stdout, process.stderr]
    said = [None, None]

    def read(number):
        said[number] = pipes[number].read()

    readers = [threading.Thread(target=read, args=(number,), daemon=True)
               for number, pipe in enumerate(pipes) if pipe and not pipe.closed]
    deadline = time.monotonic() + seconds
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(max(0, deadline - time.monotonic()))
        if reader.is_alive():
            raise subprocess.TimeoutExpired(process.args, seconds)
    process.wait(max(1, deadline - time.monotonic()))
    for pipe in pipes:
        if pipe:
            pipe.close()
    return said[0], said[1]


def result(job, seconds=120):
    """The result of the job's function."""
    out, err = rest_of(job, seconds)
    if job.returncode != 0:
        raise AssertionError(f"the job ended with {job.returncode}: {err.decode()[-3000:]}")
    return json.loads(out.splitlines()[-1])


def run_python(code, **environment):
    return subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=120, env={**os.environ, **environment})


def needs(module):
    """Skips a test, visibly, where a module is not installed."""
    import importlib.util
    return unittest.skipUnless(importlib.util.find_spec(module),
                               f"{module} is not installed for {sys.executable}")


class ServedFolders(Folder):
    """A service with a dataset SERVED_AS, of a folder of rows for each of SIZES."""
    SERVED_AS: str
    SIZES: dict

    def setUp(self):
        super().setUp()
        self.data = self.folder / "data"
        for name, rows in self.SIZES.items():
            (self.data / name).mkdir(parents=True)
            write_rows(self.data / name / "rows.npy", rows)
        self.daemon = Daemon(self.folder, "--dataset", f"{self.SERVED_AS}={self.data}")
        self.addCleanup(lambda: self.daemon.kill())
        os.environ["BATCHFLOW_SERVICE"] = self.daemon.socket
