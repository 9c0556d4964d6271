"""batchflow-ray up|status|down: the service of a Ray cluster (docs/ray.md)."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from typing import Any, Optional, Sequence


def _bounds(text: str) -> tuple[int, int]:
    try:
        least, most = (int(part) for part in text.split(":"))
    except ValueError:
        least, most = 1, 0
    if not 0 <= least <= most:
        raise argparse.ArgumentTypeError(f"{text}: write MIN:MAX, as 0:8")
    return least, most


def _arguments(given: Optional[Sequence[str]]) -> Any:
    parser = argparse.ArgumentParser(prog="batchflow-ray", description=__doc__)
    parser.add_argument("--address", default="auto", help="of the Ray cluster; default: this one")
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="start the service, if it does not run")
    up.add_argument("--dataset", action="append", default=[], metavar="NAME=PATH",
                    help="as batchflowd's; may be repeated")
    up.add_argument("--state", required=True, help="where the coordinator keeps its state")
    up.add_argument("--num-cpus", type=float, default=1, help="of a node that its agent takes")
    up.add_argument("--memory", help="that an agent may take, as 64gib")
    up.add_argument("--coordinator-memory", default="1gib")
    up.add_argument("--port", type=int, default=0, help="of the coordinator; default: any")
    up.add_argument("--option", action="append", default=[],
                    help="of batchflowd, for all nodes, as --option=--direct; may be repeated")
    up.add_argument("--cpu-agents", type=_bounds, metavar="MIN:MAX",
                    help="agents on nodes with the resource batchflow_agent, by what jobs wait for")
    status = commands.add_parser("status", help="show the daemons")
    status.add_argument("--json", action="store_true")
    commands.add_parser("down", help="end all daemons and actors")
    arguments = parser.parse_args(given)
    for one in arguments.dataset if arguments.command == "up" else []:
        if "=" not in one:
            parser.error(f"--dataset {one}: write NAME=PATH")
    return arguments


def main(given: Optional[Sequence[str]] = None) -> None:
    arguments = _arguments(given)
    try:
        import ray  # type: ignore[import-not-found, unused-ignore]
        from . import ray as service
    except ImportError as problem:
        sys.exit(f"batchflow-ray: {problem}; pip install 'batchflow-data[ray]'")
    ray.init(address=arguments.address, log_to_driver=False, logging_level=logging.WARNING)
    try:
        _run(arguments, service)
    except RuntimeError as problem:
        sys.exit(f"batchflow-ray: {problem}")
    finally:
        ray.shutdown()


def _run(arguments: Any, service: Any) -> None:
    if arguments.command == "up":
        service.start(dict(one.split("=", 1) for one in arguments.dataset), arguments.state,
                      num_cpus=arguments.num_cpus, memory=arguments.memory, port=arguments.port,
                      coordinator_memory=arguments.coordinator_memory, options=arguments.option,
                      cpu_agents=arguments.cpu_agents)
    elif arguments.command == "down":
        service.stop()
    else:
        _show(service.status(), arguments.json)


def _show(found: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print(json.dumps(found))
        return
    print(f"{'node':20}  {'role':11}  {'batchflowd':>10}  {'starts':>6}  socket")
    for one in found:
        print(f"{one['node'][:20]}  {one['role']:11}  {one['daemon'] or 'starts':>10}  "
              f"{one['starts']:6}  {one['socket']}")


if __name__ == "__main__":
    main()
