"""The manifests of configs/kubernetes as they stand there."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "configs" / "kubernetes").glob("*.yaml"))
SIZES = {"mib": 2**20, "gib": 2**30, "Mi": 2**20, "Gi": 2**30}


def documents():
    return [one for file in FILES for one in yaml.safe_load_all(file.read_text())]


def of_kind(kind):
    return {one["metadata"]["name"]: one for one in documents() if one["kind"] == kind}


def workloads():
    """The coordinator and the agents, by component."""
    found = [one for kind in ("StatefulSet", "DaemonSet", "Deployment")
             for one in of_kind(kind).values()]
    return {one["metadata"]["labels"]["app.kubernetes.io/component"]: one for one in found}


def pod(workload):
    return workload["spec"]["template"]["spec"]


def daemon(workload):
    (container,) = pod(workload)["containers"]
    return container


def node_texts():
    (found,) = of_kind("ConfigMap").values()
    return found["data"]


def node_file(workload):
    """The text of the node file that its arguments name."""
    arguments = daemon(workload)["args"]
    path = Path(arguments[arguments.index("--config") + 1])
    mounts = {one["mountPath"]: one["name"] for one in daemon(workload)["volumeMounts"]}
    (volume,) = [one for one in pod(workload)["volumes"] if one["name"] == mounts[str(path.parent)]]
    assert volume["configMap"]["name"] in of_kind("ConfigMap")
    return node_texts()[path.name]


def size(text):
    number, unit = re.fullmatch(r"(\d+)([A-Za-z]+)", text).groups()
    return int(number) * SIZES[unit]


def instructions():
    """(instruction, words) of the container file, in its order."""
    text = (ROOT / "tools" / "packaging" / "Containerfile").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    lines = "\n".join(lines).replace("\\\n", " ").splitlines()
    return [tuple(line.split(maxsplit=1)) for line in lines if line.strip()]
