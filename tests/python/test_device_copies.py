"""Copies of batches to a GPU: what they keep, and until when. The GPU is played by this test."""

import unittest
import warnings
from types import SimpleNamespace
from unittest import mock

from batchflow import arguments, device_copies
from batchflow import library as c


class Event:
    made = []

    def __init__(self):
        self.over = False
        Event.made.append(self)

    def record(self, stream):
        self.stream = stream

    def query(self):
        return self.over

    def synchronize(self):
        self.over = True


class Stream:
    def __init__(self, device=None):
        self.waits_for = []

    def wait_event(self, event):
        self.waits_for.append(event)


class Inside:
    """`with cuda.stream(...)`."""

    now = None

    def __init__(self, stream):
        self._stream = stream

    def __enter__(self):
        Inside.now = self._stream

    def __exit__(self, *unused):
        Inside.now = None


class Field:
    """A batch of one field, which says where it was copied."""

    def __init__(self, handle=7, copied_on=None):
        self._handle, self.copied_on, self.used_on = handle, copied_on, []

    def to(self, device, non_blocking):
        assert non_blocking
        return Field(None, Inside.now)

    def record_stream(self, stream):
        self.used_on.append(stream)


def torch(kind="cuda", available=True):
    current = Stream()
    cuda = SimpleNamespace(is_available=lambda: available, Stream=Stream, Event=Event, stream=Inside,
                           current_device=lambda: 3, current_stream=lambda device: current)
    return SimpleNamespace(cuda=cuda, device=lambda text: SimpleNamespace(type=kind, index=None)), current


def library(status, why=b""):
    pins = []

    def pin(loader, handle, device):
        pins.append((handle, device))
        return status
    return SimpleNamespace(bf_batch_pin=pin, bf_last_error=lambda: why), pins


class DeviceCopies(unittest.TestCase):
    def setUp(self):
        Event.made = []

    def copies(self, status=c.OK, why=b"", **kind):
        played, self.current = torch(**kind)
        self.library, self.pins = library(status, why)
        played_library = mock.patch.object(c, "library", lambda: self.library)
        played_library.start()
        self.addCleanup(played_library.stop)
        return device_copies.DeviceCopies("cuda", played)

    def test_a_batch_is_kept_until_the_gpu_has_read_it(self):
        copies = self.copies()
        first, second = Field(7), Field(8)
        made = copies.copy(first)
        copies.copy(second)
        self.assertEqual(self.pins, [(7, 3), (8, 3)])
        self.assertEqual([batch for _, batch in copies._under_way], [first, second])
        copies.settle()
        self.assertEqual(len(copies._under_way), 2)
        Event.made[0].over = True
        copies.settle()
        self.assertEqual([batch for _, batch in copies._under_way], [second])
        copies.finish()
        self.assertEqual(len(copies._under_way), 0)
        self.assertTrue(Event.made[1].over)
        # On a stream of its own, for which the script's stream waits, and which may use it then.
        self.assertIsNot(made.copied_on, self.current)
        self.assertIs(Event.made[0].stream, made.copied_on)
        self.assertEqual(self.current.waits_for, Event.made)
        self.assertEqual(made.used_on, [self.current])

    def test_a_job_that_ends_waits_for_its_copies(self):
        copies = self.copies()
        copies.copy(Field())
        del copies
        self.assertTrue(Event.made[0].over)

    def test_what_cannot_be_pinned_is_copied_as_before_and_said_once(self):
        copies = self.copies(c.BAD_ARGUMENT, b"cuMemHostRegister: out of memory")
        arguments._said.discard("device")
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            self.assertIsNone(copies.copy(Field()).copied_on)
            copies.copy(Field())
        self.assertEqual(len(self.pins), 1)
        self.assertEqual(len(copies._under_way), 0)
        self.assertIn("out of memory", str(said[0].message))
        self.assertEqual(len(said), 1)

    def test_a_batch_that_is_a_copy_is_copied_as_before_and_the_next_is_tried(self):
        copies = self.copies(c.BAD_ARGUMENT, b"the batch is a copy, which does not lie in the service's memory")
        for handle in (1, 2):
            self.assertIsNone(copies.copy(Field(handle)).copied_on)
        self.assertEqual(len(self.pins), 2)

    def test_nothing_is_pinned_without_a_gpu(self):
        for kind in ({"kind": "cpu"}, {"available": False}):
            copies = self.copies(**kind)
            copies.copy(Field())
            self.assertEqual(self.pins, [])


class Library(unittest.TestCase):
    def test_a_batch_that_is_not_held_is_refused(self):
        self.assertEqual(c.library().bf_batch_pin(None, 12345, 0), c.BAD_ARGUMENT)
        self.assertIn("no such batch", c.library().bf_last_error().decode())


if __name__ == "__main__":
    unittest.main()
