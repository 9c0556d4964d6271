"""Sounds through the service: a folder of classes, and a WebDataset."""

import io
import json
import math
import struct
import tarfile
import unittest
import wave

import batchflow
from support import Daemon, Folder, needs

STEPS = [{"step": "decode_sound", "rate": 8000}, {"step": "cut_sound", "frames": 400}]


def sound(number, frames=500):
    """A wave of 8 kHz with values that tell its number."""
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(b"".join(struct.pack("<h", number * 256) for _ in range(frames)))
    return out.getvalue()


@needs("numpy")
class Sound(Folder):
    def setUp(self):
        super().setUp()
        daemon = Daemon(self.folder, "--open-datasets", "--workers", "2", memory="512mib")
        self.addCleanup(daemon.kill)
        self.service = daemon.socket

    def loader(self, path, pipeline, **more):
        return batchflow.DataLoader(str(path), 8, True, pipeline=pipeline, output="numpy",
                                    service=self.service, **more)

    def test_a_folder_of_classes(self):
        for number in range(32):
            folder = self.folder / "sounds" / ("low" if number < 16 else "high")
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{number}.wav").write_bytes(sound(number))
        seen = {}
        for sounds, labels in self.loader(self.folder / "sounds", STEPS):
            self.assertEqual(sounds.shape[1:], (400,))
            for values, label in zip(sounds, labels):
                self.assertTrue((values == values[0]).all())
                seen[round(float(values[0]) * 128)] = int(label)
        self.assertEqual(seen, {number: int(number < 16) for number in range(32)})

    def test_a_webdataset_with_spectrograms(self):
        with tarfile.open(self.folder / "sounds.tar", "w") as tar:
            for number in range(16):
                for name, content in (("wav", sound(number)), ("cls", str(number).encode())):
                    member = tarfile.TarInfo(f"{number:04}.{name}")
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))
        steps = [*STEPS, {"step": "mel_spectrogram", "n_fft": 64, "mels": 8, "scale": "decibels"}]
        pipeline = json.dumps({"name": "sounds", "field": "wav", "steps": steps})
        labels = []
        for batch in self.loader(self.folder / "sounds.tar", pipeline):
            self.assertEqual(batch["wav"].shape[1:], (8, 1 + 400 // 32))
            labels += batch["label"].tolist()
        self.assertEqual(sorted(labels), list(range(16)))

    def test_sounds_beside_their_texts(self):
        with tarfile.open(self.folder / "speech.tar", "w") as tar:
            for number in range(16):
                for name, content in (("wav", sound(number)), ("txt", f"words {number}".encode())):
                    member = tarfile.TarInfo(f"{number:04}.{name}")
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))
        pipeline = batchflow.Pipeline(fields=[
            {"field": "speech", "kind": "sound", "from": "wav", "steps": STEPS},
            {"field": "all", "kind": "sound", "from": "wav", "steps": STEPS[:1]},
            {"field": "words", "kind": "bytes", "from": "txt"}], steps=[])
        seen = []
        for batch in self.loader(self.folder / "speech.tar", pipeline):
            self.assertEqual(batch["speech"].shape[1:], (400,))
            for values, whole, words in zip(batch["speech"], batch["all"], batch["words"]):
                number = round(float(values[0]) * 128)
                self.assertEqual(bytes(words).decode(), f"words {number}")
                self.assertEqual(len(whole), 500)
                seen.append(number)
        self.assertEqual(sorted(seen), list(range(16)))

    def test_sounds_of_their_own_lengths(self):
        (self.folder / "sounds").mkdir()
        for number in range(1, 9):
            (self.folder / "sounds" / f"{number}.wav").write_bytes(sound(number, 100 * number))
        (batch,) = self.loader(self.folder / "sounds", STEPS[:1])
        lengths = sorted(len(batch["sound"][i]) for i in range(8))
        self.assertEqual(lengths, [100 * number for number in range(1, 9)])
        self.assertTrue(all(math.isclose(len(batch["sound"][i]), 12800 * float(batch["sound"][i][0]))
                            for i in range(8)))


if __name__ == "__main__":
    unittest.main()
