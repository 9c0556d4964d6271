"""Device memory by DLPack, with the host in place of a GPU. tools/gpu_check/tensors.py does the same
on a GPU."""
import gc
import os
import socket
import subprocess
import sys
import threading
import time
import unittest

from batchflow import device

SERVICE = """
import socket, sys
from batchflow import device
memory = device.Device(device.HOST).make(4096)
memory.write(0, bytes(range(256)) * 16)
way = socket.socket(fileno=int(sys.argv[1]))
socket.send_fds(way, [b"x"], [memory.export()])
assert way.recv(1) == b"w"
memory.write(0, b"\\x07" * 16)
way.send(b"x")
way.recv(1)
"""


class Released:
    def __init__(self):
        self.slots, self.changed = [], threading.Event()
        self.function = device.RELEASED(self._note)

    def _note(self, context, slot):
        self.slots.append(slot)
        self.changed.set()


def until(condition):
    end = time.monotonic() + 10
    while not condition() and time.monotonic() < end:
        time.sleep(0.001)
    return condition()


class DeviceTest(unittest.TestCase):
    def setUp(self):
        self.device = device.Device(device.HOST)

    def test_what_is_found_is_a_sentence(self):
        self.assertRegex(device.found(), "GPU")

    def test_memory_of_another_process_without_a_copy(self):
        here, there = socket.socketpair()
        with here, there:
            child = subprocess.Popen([sys.executable, "-c", SERVICE, str(there.fileno())],
                                     pass_fds=[there.fileno()])
            _, (descriptor,), _, _ = socket.recv_fds(here, 1, 1)
            memory = self.device.map(descriptor, 4096)
            self.assertTrue(memory.is_read_only)
            self.assertEqual(memory.device, (1, 0))
            self.assertEqual(memory.read(250, 10), bytes([*range(250, 256), 0, 1, 2, 3]))
            tensor = memory.tensor(256, "uint8", (4, 64))
            self.assertEqual(tensor.__dlpack_device__(), (1, 0))
            seen = self.array_of(tensor)
            self.assertEqual(seen.tolist(), [list(range(i, i + 64)) for i in range(0, 256, 64)])
            first = self.array_of(memory.tensor(0, "uint8", (2,)))
            here.send(b"w")
            here.recv(1)
            self.assertEqual(first.tolist(), [7, 7])
            here.send(b"x")
            self.assertEqual(child.wait(), 0)

    def array_of(self, tensor):
        try:
            import torch
            return torch.from_dlpack(tensor)
        except ImportError:
            import numpy
            return numpy.from_dlpack(tensor)

    def test_a_slot_is_released_with_its_last_tensor(self):
        released = Released()
        memory = self.device.make(1000)
        memory.write(0, bytes(1000))
        begin = device.library().bf_device_held_count()
        tensor = memory.tensor(0, "float32", (5, 50), released.function, 7)
        first, second = self.array_of(tensor), self.array_of(tensor)
        del tensor, first, memory
        gc.collect()
        time.sleep(0.02)
        self.assertEqual(released.slots, [])
        self.assertEqual(float(second.sum()), 0)  # the memory is still mapped
        del second
        gc.collect()
        self.assertTrue(released.changed.wait(10))
        self.assertEqual(released.slots, [7])
        self.assertEqual(device.library().bf_device_held_count(), begin)
        self.assertTrue(until(lambda: device.library().bf_device_waiting_count() == 0))

    def test_capsules_that_nothing_took(self):
        released = Released()
        memory = self.device.make(1000)
        tensor = memory.tensor(0, "uint8", (10,), released.function, 3)
        capsule = tensor.__dlpack__(stream=2)
        del tensor, capsule
        memory.tensor(0, "uint8", (10,)).__dlpack__()  # finds the first
        gc.collect()
        self.assertTrue(released.changed.wait(10))
        self.assertEqual(released.slots, [3])

    def test_released_twice_or_never_held(self):
        library = device.library()
        library.bf_device_release(None, 10**9)
        library.bf_device_note_stream(10**9, 1)

    def test_a_fence_before_the_tensor(self):
        memory = self.device.make(1000)
        memory.write(0, b"\x05" * 1000)
        tensor = memory.tensor(0, "uint8", (10,), ready=self.device.fence())
        self.assertEqual(self.array_of(tensor).tolist(), [5] * 10)

    def test_errors_are_clear(self):
        memory = self.device.make(1000)
        with self.assertRaisesRegex(ValueError, "bytes 996 to 1004 of 1000"):
            memory.tensor(996, "float32", (2,))
        with self.assertRaisesRegex(ValueError, "outside"):
            memory.write(999, b"12")
        with self.assertRaisesRegex(device.DeviceError, "no device memory of that size"):
            self.device.map(os.open("/dev/null", os.O_RDONLY), 10)
        with self.assertRaisesRegex(MemoryError, "no memory left"):
            self.device.make(1 << 40)
        with self.assertRaisesRegex(device.DeviceError, "CUDA|driver|GPU"):
            device.Device(99)


if __name__ == "__main__":
    unittest.main()
