"""Memory of a GPU that another process has filled, as tensors of PyTorch.

    PYTHONPATH=python BATCHFLOW_DEVICE_LIBRARY=build/release/lib/libbatchflow_device.so.1 \
        python3 tools/gpu_check/tensors.py [--host]

Prints a row for each check, and ends with 1 if one has failed. --host: without a GPU, as far as that
goes.
"""
from __future__ import annotations

import gc
import socket
import subprocess
import sys
import threading
import time
import traceback

import torch

from batchflow import device

HOST = "--host" in sys.argv
INDEX = device.HOST if HOST else 0
SIZE = 64 << 20
SHAPE = (256, 3, 224, 224)
COUNT = 256 * 3 * 224 * 224
OFFSET = 1 << 20
failed = False


def row(what: str, verdict: str, value: object) -> None:
    global failed
    failed |= verdict == "FAILED"
    print(f"{verdict:8} tensors  {what}: {value}", flush=True)


def check(what: str, is_right: object, value: object) -> None:
    row(what, "passed" if is_right else "FAILED", value)


def pattern(first: int) -> bytes:
    return bytes((first + i) % 251 for i in range(251)) * (SIZE // 251 + 1)


# -------------------------------------------------------------------------- the other processes --

def serve(way: socket.socket) -> None:
    """As the service: makes and fills the memory, and does what it is told by one letter."""
    memory = device.Device(INDEX).make(SIZE)
    now = pattern(0)[:SIZE]
    memory.write(0, now)
    while True:
        asked = way.recv(1)
        if asked == b"e":
            socket.send_fds(way, [b"e"], [memory.export()])
        elif asked == b"w":
            now = pattern(100)[:SIZE]
            memory.write(0, now)
            way.send(b"w")
        elif asked == b"c":
            way.send(b"y" if memory.read(0, SIZE) == now else b"n")
        else:
            return


def write(way: socket.socket) -> None:
    """As a hostile job: writes to a tensor that is mapped read-only."""
    _, (descriptor,), _, _ = socket.recv_fds(way, 1, 1)
    memory = device.Device(INDEX).map(descriptor, SIZE)
    tensor = torch.from_dlpack(memory.tensor(OFFSET, "uint8", SHAPE))
    try:
        tensor.fill_(1)
        torch.cuda.synchronize()
        way.send(b"written" if memory.is_read_only else b"written: the driver maps nothing read-only")
    except RuntimeError as error:
        way.send(b"refused: " + str(error).splitlines()[0].encode()[:200])


class Other:
    """This program, as another process."""

    def __init__(self, role: str):
        self.way, there = socket.socketpair()
        self.way.settimeout(60)
        self.process = subprocess.Popen(
            [sys.executable, __file__, role, str(there.fileno())] + ["--host"] * HOST,
            pass_fds=[there.fileno()])
        there.close()

    def ask(self, letter: bytes) -> bytes:
        self.way.send(letter)
        return self.way.recv(1000)

    def descriptor(self) -> int:
        self.way.send(b"e")
        return socket.recv_fds(self.way, 1, 1)[1][0]

    def end(self) -> None:
        self.way.close()
        self.process.wait(30)


# ------------------------------------------------------------------------------------- the checks --

class Released:
    def __init__(self) -> None:
        self.event = threading.Event()
        self.function = device.RELEASED(lambda context, slot: self.event.set())


def expected(first: int) -> torch.Tensor:
    values = (torch.arange(OFFSET, OFFSET + COUNT) + first) % 251
    return values.to(torch.uint8).reshape(SHAPE)


def check_values(service: Other, memory: device.Memory) -> None:
    tensor = torch.from_dlpack(memory.tensor(OFFSET, "uint8", SHAPE))
    check("a tensor of another process's memory", torch.equal(tensor.cpu(), expected(0)),
          f"{tuple(tensor.shape)} on {tensor.device}")
    check("no copy was made", tensor.data_ptr() == memory.address + OFFSET, hex(tensor.data_ptr()))
    service.ask(b"w")
    check("what the other process writes later is seen", torch.equal(tensor.cpu(), expected(100)),
          "all values")
    floats = torch.from_dlpack(memory.tensor(0, "float32", (1000, 10)))
    halves = torch.from_dlpack(memory.tensor(0, "bfloat16", (1000, 10)))
    check("other types", floats.dtype == torch.float32 and halves.dtype == torch.bfloat16,
          f"{floats.dtype}, {halves.dtype}")


def check_release(memory: device.Memory) -> None:
    """Work on a stream that nothing was told of still reads the tensor when it is dropped."""
    released, side = Released(), torch.cuda.Stream()
    tensor = torch.from_dlpack(memory.tensor(OFFSET, "uint8", SHAPE, released.function, 7))
    right = int(tensor.sum())
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(400_000_000)
        total = tensor.sum()
    del tensor
    gc.collect()
    time.sleep(0.03)
    early = released.event.is_set()
    side.synchronize()
    came = released.event.wait(5)
    check("a slot is released behind work on a side stream", not early and came,
          "too early" if early else "afterwards" if came else "NEVER")
    check("that work has read what was there", int(total) == right, int(total))


def check_ready(opened: device.Device) -> None:
    """A tensor that is still being filled when it is taken."""
    memory, side = opened.make(SIZE), torch.cuda.Stream()
    inside = torch.from_dlpack(memory.tensor(0, "uint8", (SIZE,)))
    with torch.cuda.stream(side):
        torch.cuda._sleep(400_000_000)
        inside.fill_(9)
    fence = opened.fence(side.cuda_stream)
    tensor = torch.from_dlpack(memory.tensor(0, "uint8", (SIZE,), ready=fence))
    check("readers begin after the producer", int(tensor.sum()) == 9 * SIZE, int(tensor.sum()))


def check_capture(memory: device.Memory) -> None:
    released = Released()
    tensor = torch.from_dlpack(memory.tensor(OFFSET, "uint8", SHAPE, released.function))
    work = torch.ones(1000, device="cuda")
    torch.cuda.synchronize()
    graph, outcome = torch.cuda.CUDAGraph(), "the capture succeeds"
    try:
        with torch.cuda.graph(graph):
            work += 1
            del tensor
            time.sleep(0.01)
    except Exception as error:
        outcome = f"the capture fails: {str(error).splitlines()[0]}"
    came = released.event.wait(5)
    row("a tensor that ends while a graph is captured", "" if came else "FAILED",
        f"{outcome}; released {'afterwards' if came else 'NEVER'}")


def measure(memory: device.Memory) -> None:
    def once() -> None:
        torch.from_dlpack(memory.tensor(OFFSET, "uint8", SHAPE))

    def per_call(function: object, times: int) -> float:
        function()  # type: ignore[operator]
        if not HOST:
            torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(times):
            function()  # type: ignore[operator]
        if not HOST:
            torch.cuda.synchronize()
        return 1e6 * (time.perf_counter() - begin) / times

    row("a batch of 256 pictures as a tensor, and its release", "", f"{per_call(once, 1000):.1f} us")
    if HOST:
        return
    batch = expected(0)
    row("the same batch copied from pageable memory", "",
        f"{per_call(lambda: batch.to('cuda'), 20):.0f} us")
    pinned = batch.pin_memory()
    row("the same batch copied from pinned memory", "",
        f"{per_call(lambda: pinned.to('cuda', non_blocking=True), 50):.0f} us")


def check_hostile(service: Other) -> None:
    job = Other("--write")
    socket.send_fds(job.way, [b"e"], [service.descriptor()])
    said = job.way.recv(1000).decode(errors="replace")
    job.end()
    unchanged = service.ask(b"c") == b"y"
    check("a job that writes to its tensor", said.startswith("refused") and unchanged,
          f"{said}; the other process's bytes {'are unchanged' if unchanged else 'HAVE CHANGED'}")


def main() -> int:
    row("found", "", device.found())
    service = Other("--serve")
    opened = device.Device(INDEX)
    memory = opened.map(service.descriptor(), SIZE)
    row("memory of another process is mapped", "",
        "read-only" if memory.is_read_only else "WRITABLE: the driver refuses read-only")
    checks = [lambda: check_values(service, memory), lambda: measure(memory)]
    if not HOST:
        checks += [lambda: check_release(memory), lambda: check_ready(opened),
                   lambda: check_hostile(service), lambda: check_capture(memory)]
    for one in checks:
        try:
            one()
        except Exception as error:
            traceback.print_exc()
            row("a check", "FAILED", f"{type(error).__name__}: {error}")
    gc.collect()
    end = time.monotonic() + 5
    while device.library().bf_device_waiting_count() and time.monotonic() < end:
        time.sleep(0.001)
    check("nothing is held at the end", device.library().bf_device_waiting_count() == 0,
          f"{device.library().bf_device_held_count()} held, "
          f"{device.library().bf_device_waiting_count()} wait")
    service.end()
    return 1 if failed else 0


if __name__ == "__main__":
    for role, play in (("--serve", serve), ("--write", write)):
        if role in sys.argv:
            play(socket.socket(fileno=int(sys.argv[sys.argv.index(role) + 1])))
            sys.exit(0)
    sys.exit(main())
