"""srun and scancel for a test: nodes are folders, which tasks see as their BATCHFLOW_LOCAL by a mount
namespace of their own. It is called by the name of the program that it stands for.

Of srun's options it knows those that tools/packaging/batchflow.sbatch gives, and refuses others.
FAKE_SLURM is a folder: `nodes/NAME` of each node, and `steps/PID` of each task that runs."""

import os
import signal
import subprocess
import sys
from pathlib import Path

FAKE = Path(os.environ["FAKE_SLURM"])
ON_NODE = 'mount --bind "$0" "$BATCHFLOW_LOCAL" && exec "$@"'


def on_node(node, *command):
    return ["unshare", "--mount", "sh", "-c", ON_NODE, str(FAKE / "nodes" / node), *command]


def scancel(words):
    if words != ["--signal=TERM", os.environ["SLURM_JOB_ID"]]:
        return f"scancel: unexpected {words}"
    for step in (FAKE / "steps").iterdir():
        try:
            os.killpg(int(step.name), signal.SIGTERM)
        except ProcessLookupError:
            pass
    return 0


def srun(words):
    options = {}
    while words and words[0].startswith("--"):
        name, _, value = words.pop(0)[2:].partition("=")
        options[name] = value
    unknown = set(options) - {"overlap", "nodes", "ntasks", "ntasks-per-node", "cpus-per-task",
                              "kill-on-bad-exit"}
    if unknown or "overlap" not in options:  # without it, a step waits for the resources of others
        return f"srun: unexpected {options}"
    nodes = sorted(path.name for path in (FAKE / "nodes").iterdir())
    if int(options.get("nodes", len(nodes))) != len(nodes):
        return f"srun: there are {len(nodes)} nodes"
    each = int(options.get("ntasks-per-node", 1))
    if int(options.get("ntasks", each * len(nodes))) != each * len(nodes):
        return f"srun: not so many tasks: {options}"
    told = b"" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.buffer.read()
    tasks = []
    for rank in range(each * len(nodes)):
        node = rank // each
        environment = {**os.environ, "SLURMD_NODENAME": nodes[node], "SLURM_NODEID": str(node),
                       "SLURM_PROCID": str(rank), "SLURM_NTASKS": str(each * len(nodes))}
        task = subprocess.Popen(on_node(nodes[node], *words), stdin=subprocess.PIPE,
                                env=environment, start_new_session=True)
        (FAKE / "steps" / str(task.pid)).touch()
        try:
            task.stdin.write(told)
            task.stdin.close()
        except BrokenPipeError:  # it has ended already
            pass
        tasks.append(task)

    worst, left = 0, {task.pid: task for task in tasks}

    def kill(*_):
        for pid in left:  # none of which has been waited for
            os.killpg(pid, signal.SIGKILL)

    signal.signal(signal.SIGTERM, kill)  # as srun does
    while left:
        pid, status = os.wait()
        task = left.pop(pid)
        task.returncode = os.waitstatus_to_exitcode(status)
        (FAKE / "steps" / str(pid)).unlink()
        worst = max(worst, abs(task.returncode))
        if task.returncode != 0 and options.get("kill-on-bad-exit") == "1":
            kill()
    return worst


if __name__ == "__main__":
    sys.exit({"srun": srun, "scancel": scancel}[Path(sys.argv[0]).name](sys.argv[1:]))
