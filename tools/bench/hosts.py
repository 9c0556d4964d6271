"""Hosts on one machine: network namespaces around a switch, with links that can be shaped and cut."""

from __future__ import annotations

import itertools
import os
import subprocess
from typing import Any

_numbers = itertools.count()


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                   text=True)


class Hosts:
    """For a `with`. `rate` is of each link, in each direction, as tc writes it: 8gbit."""

    @staticmethod
    def problem() -> str:
        """Why there can be none here; empty: there can."""
        try:
            with Hosts(["a"], "1gbit"):
                return ""
        except FileNotFoundError as missing:
            return f"{missing.filename} is not installed (apt-get install iproute2)"
        except subprocess.CalledProcessError as error:
            return f"network namespaces are refused: {' '.join(error.stderr.split())}"

    def __init__(self, names: list[str], rate: str = ""):
        self._prefix = f"bf{os.getpid()}-{next(_numbers)}"
        self._numbers = {name: i + 1 for i, name in enumerate(names)}
        self._made: list[str] = []
        try:
            self._make(self._switch())
            _ip("-n", self._switch(), "link", "add", "sw", "type", "bridge")
            _ip("-n", self._switch(), "link", "set", "sw", "up")
            for name in names:
                self._connect(name)
                if rate:
                    self.shape(name, rate)
        except Exception:
            self.close()
            raise

    def _switch(self) -> str:
        return f"{self._prefix}-s"

    def _space(self, name: str) -> str:
        return f"{self._prefix}-{self._numbers[name]}"

    def _make(self, space: str) -> None:
        _ip("netns", "add", space)
        self._made.append(space)
        _ip("-n", space, "link", "set", "lo", "up")

    def _connect(self, name: str) -> None:
        space, port = self._space(name), f"p{self._numbers[name]}"
        self._make(space)
        _ip("-n", self._switch(), "link", "add", port, "type", "veth", "peer", "name", "eth0",
            "netns", space)
        _ip("-n", self._switch(), "link", "set", port, "master", "sw", "up")
        _ip("-n", space, "addr", "add", f"{self.address(name)}/24", "dev", "eth0")
        _ip("-n", space, "link", "set", "eth0", "up")

    def address(self, name: str) -> str:
        return f"10.78.0.{self._numbers[name]}"

    def command(self, name: str, words: list[str]) -> list[str]:
        """The command in the host's namespace. Its process is the command's own."""
        return ["ip", "netns", "exec", self._space(name), *words]

    def start(self, name: str, words: list[str], **more: Any) -> "subprocess.Popen[str]":
        return subprocess.Popen(self.command(name, words), **more)

    def lose_way(self, name: str, to: str) -> None:
        """What the host sends to the other one gets nowhere, also over what is connected."""
        _ip("-n", self._space(name), "route", "add", "blackhole", self.address(to))

    def find_way(self, name: str, to: str) -> None:
        _ip("-n", self._space(name), "route", "del", "blackhole", self.address(to))

    def cut(self, name: str) -> None:
        _ip("-n", self._switch(), "link", "set", f"p{self._numbers[name]}", "down")

    def heal(self, name: str) -> None:
        _ip("-n", self._switch(), "link", "set", f"p{self._numbers[name]}", "up")

    def shape(self, name: str, rate: str) -> None:
        for space, device in ((self._space(name), "eth0"),
                              (self._switch(), f"p{self._numbers[name]}")):
            self._shape(space, device, rate, "4mb")

    def mute(self, name: str) -> None:
        """What the host sends gets nowhere, until shape(); what is sent to it arrives."""
        self._shape(self._space(name), "eth0", "8bit", "1")

    @staticmethod
    def _shape(space: str, device: str, rate: str, burst: str) -> None:
        subprocess.run(["tc", "-n", space, "qdisc", "replace", "dev", device, "root", "tbf",
                        "rate", rate, "burst", burst, "latency", "20ms"], check=True,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def close(self) -> None:
        for space in reversed(self._made):
            subprocess.run(["ip", "netns", "del", space], check=False)
        self._made.clear()

    def __enter__(self) -> "Hosts":
        return self

    def __exit__(self, *unused: Any) -> None:
        self.close()
