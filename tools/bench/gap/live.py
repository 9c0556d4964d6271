"""The jobs of a case on a service of its own, and what its store may read a second."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator, NamedTuple, Optional

CTL = os.environ.get("BATCHFLOWCTL", "batchflowctl")


class Data(NamedTuple):
    name: str
    folder: Path
    pipeline: str
    batch: int
    dataset: dict[str, Any]          # as `batchflowctl calibrate` writes them
    pipeline_model: dict[str, Any]
    cluster: dict[str, Any]


def answer(command: list[str], timeout_s: float = 600) -> dict[str, Any]:
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                           timeout=timeout_s)
    if ended.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {ended.returncode}: {ended.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(ended.stdout)
    return result


def calibrated(yaml: Any, name: str, folder: Path, pipeline: str, batch: int, work: Path,
               seconds: float) -> Data:
    cluster, workload = work / f"{name}-cluster.yaml", work / f"{name}-workload.yaml"
    subprocess.run([CTL, "calibrate", str(folder), "--pipeline", pipeline, "--seconds",
                    str(seconds), f"--cluster={cluster}", f"--workload={workload}"], check=True)
    models = yaml.safe_load(workload.read_text())
    return Data(name, folder, pipeline, batch, models["datasets"][0], models["pipelines"][0],
                yaml.safe_load(cluster.read_text()))


class Throttle:
    """A control group that limits reads of a drive; None in `reason` if there can be one."""

    def __init__(self, folder: Path) -> None:
        device = os.stat(folder).st_dev
        self._device = f"{os.major(device)}:{os.minor(device)}"
        self._group: Optional[Path] = None
        self._write = ""
        self.reason: Optional[str] = None
        for root, limit in ((Path("/sys/fs/cgroup/blkio"), "blkio.throttle.read_bps_device"),
                            (Path("/sys/fs/cgroup"), "io.max")):
            group = root / f"batchflow-gap-{os.getpid()}"
            try:
                group.mkdir()
            except OSError as error:
                self.reason = str(error)
                continue
            if (group / limit).exists():
                self._group, self._write, self.reason = group, limit, None
                return
            group.rmdir()
            self.reason = f"{root} has no {limit}"

    def limit(self, process: int, bytes_per_s: Optional[int]) -> None:
        if self._group is None:
            return
        amount = bytes_per_s if bytes_per_s is not None else 0
        text = (f"{self._device} rbps={amount or 'max'}" if self._write == "io.max"
                else f"{self._device} {amount}")
        (self._group / self._write).write_text(text)
        (self._group / "cgroup.procs").write_text(str(process))

    def close(self) -> None:
        if self._group is not None:
            with contextlib.suppress(OSError):
                self._group.rmdir()


class Live:
    """Runs of a case; every run has a service of its own, with nothing kept."""

    def __init__(self, yaml: Any, folder: Path, throttle: Throttle) -> None:
        self._yaml, self._folder, self._throttle = yaml, folder, throttle
        self._number = 0

    def _file(self, value: dict[str, Any]) -> Path:
        self._number += 1
        path = self._folder / f"live-{self._number}.yaml"
        path.write_text(self._yaml.safe_dump(value, sort_keys=False))
        return path

    @contextlib.contextmanager
    def service(self, case: dict[str, Any], policy: str) -> Iterator[Any]:
        from service import Service
        self._number += 1
        folder = self._folder / f"service-{self._number}"
        folder.mkdir()
        node = self._file({"kind": "node", "memory": case["memory"]})
        with Service(folder, "--config", str(node), "--policy", policy) as service:
            self._throttle.limit(service.process, case.get("store_bytes_per_s"))
            yield service

    def run(self, case: dict[str, Any], policy: str, data: Data,
            scenario: dict[str, Any]) -> dict[str, Any]:
        """What `batchflowctl run` measured, with the service's `planned_bytes`."""
        with self.service(case, policy) as service:
            planned = service.status()["planned_bytes"]
            result: dict[str, Any] = answer(
                [CTL, "--service", str(service.socket), "run", str(self._file(scenario)),
                 "--dataset", f"data={data.folder}", "--pipeline",
                 f"{data.pipeline_model['name']}={data.pipeline}", "--json"])["runs"][0]
        result["planned_bytes"] = planned
        return result
