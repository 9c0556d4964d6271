"""A BatchFlow service of a benchmark's own, in a folder of its own.

BATCHFLOW_DAEMON and BATCHFLOWCTL name the programs.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any


def status(service: Path) -> dict[str, Any]:
    answer = subprocess.run(
        [os.environ["BATCHFLOWCTL"], "--service", str(service), "status", "--json"], check=True,
        stdout=subprocess.PIPE, timeout=60)
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


class Service:
    """Runs for a `with`; jobs of this process and its children find it by BATCHFLOW_SERVICE."""

    def __init__(self, folder: Path, *arguments: str):
        self.socket = folder / "batchflow.sock"
        self._log = folder / "batchflowd.log"
        self._command = [os.environ["BATCHFLOW_DAEMON"], "--socket", str(self.socket), "--state",
                         str(folder / "state"), "--open-datasets", "--http", "-1",
                         "--exit-when-idle", "300", *arguments]

    def __enter__(self) -> "Service":
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while not self.socket.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._process.kill()
                raise RuntimeError(f"batchflowd did not start: {self._log.read_text()}")
            time.sleep(0.01)
        self.status()  # its socket is there before it answers
        os.environ["BATCHFLOW_SERVICE"] = str(self.socket)
        return self

    @property
    def process(self) -> int:
        return self._process.pid

    def status(self) -> dict[str, Any]:
        return status(self.socket)

    def __exit__(self, *unused: Any) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
