"""Clips of video through the service: the frames that ffmpeg decodes, turned as it turns them, and groups
that are decoded once for all jobs."""

import os
import random
import shutil
import struct
import subprocess
import threading
import unittest

import batchflow
from support import DAEMON, Daemon, Folder, needs

try:
    import numpy as np
except ImportError:
    np = None

WIDTH, HEIGHT, FRAMES = 64, 48, 144
SPLITTER = os.path.join(os.path.dirname(os.path.realpath(DAEMON)), "batchflow-video-split")


ONE = 1 << 16

# How a codec is encoded, so that groups of 40 frames end with key frames.
CODECS = {
    "h264": ("-c:v", "libx264", "-g", "40", "-bf", "2", "-sc_threshold", "0"),
    "hevc": ("-c:v", "libx265", "-preset", "ultrafast", "-x265-params",
             "log-level=error:keyint=40:min-keyint=40:scenecut=0:bframes=3:open-gop=0"),
    "av1": ("-c:v", "libaom-av1", "-cpu-used", "8", "-g", "40", "-keyint_min", "40", "-lag-in-frames", "16",
            "-crf", "30"),
}


def clip(frames, every=1, step="clip", size=(HEIGHT, WIDTH)):
    return [{"step": step, "frames": frames, "every": every},
            {"step": "centre_crop", "size": list(size)}]


def turned(data, across, down):
    """A file of MP4 that shows a pixel (x, y) at (across[0] x + across[1] y, down[0] x + down[1] y)."""
    at = data.index(b"tkhd") + 4 + 40  # the first track's
    matrix = (across[0], down[0], 0, across[1], down[1], 0, 0, 0, 1 << 30)
    return data[:at] + struct.pack(">9i", *matrix) + data[at + 36:]


@needs("numpy")
@unittest.skipUnless(os.access(SPLITTER, os.X_OK), "this build reads no video")
@unittest.skipUnless(shutil.which("ffmpeg"), "ffmpeg is not installed")
class Video(Folder):
    def setUp(self):
        super().setUp()
        self.videos = self.folder / "videos"
        self.daemon = Daemon(self.folder, "--open-datasets", "--workers", "2",
                             "--corrupt-ratio-allowed", "100%", memory="1gib")
        self.addCleanup(self.daemon.kill)
        os.environ["BATCHFLOW_SERVICE"] = self.daemon.socket

    def ffmpeg(self, *arguments):
        return subprocess.run(["ffmpeg", "-nostdin", "-loglevel", "error", *map(str, arguments)], check=True,
                              stdout=subprocess.PIPE, timeout=120).stdout

    def write(self, name, *encoding, frames=FRAMES, source="mandelbrot"):
        file = self.videos / name
        file.parent.mkdir(parents=True, exist_ok=True)
        self.ffmpeg("-f", "lavfi", "-i", f"{source}=size={WIDTH}x{HEIGHT}:rate=25", "-f", "lavfi", "-i",
                    "sine=frequency=440", "-frames:v", frames, "-shortest", *encoding, "-y", file)
        return self.frames_of(file)

    def frames_of(self, file, size=(HEIGHT, WIDTH)):
        raw = self.ffmpeg("-i", file, "-map", "0:v:0", "-fps_mode", "passthrough", "-sws_flags",
                          "bicubic+accurate_rnd+bitexact", "-f", "rawvideo", "-pix_fmt", "rgb24", "-")
        return np.frombuffer(raw, np.uint8).reshape(-1, *size, 3)

    def needs_encoder(self, encoding):
        name = encoding[1]
        if not any(line.split()[1:2] == [name.encode()]
                   for line in self.ffmpeg("-hide_banner", "-encoders").splitlines()):
            self.skipTest(f"this ffmpeg does not encode by {name}")

    def loader(self, steps, batch_size=1, shuffle=False, **more):
        return batchflow.DataLoader(str(self.videos), batch_size, shuffle, pipeline=steps, output="numpy",
                                    **more)

    def runs(self, groups, frames, every=1):
        """Where clips begin in a video."""
        made = []
        for group in groups:
            found = [at for at in range(len(frames) - (len(group) - 1) * every)
                     if (frames[at:at + len(group) * every:every] == group).all()]
            self.assertEqual(len(found), 1, found)
            made.append(found[0])
        return made

    def test_frames_are_ffmpegs_in_every_container_and_codec(self):
        for name, encoding in (
                ("h264.mp4", ("-c:v", "libx264", "-g", "40", "-bf", "2", "-sc_threshold", "0",
                              "-pix_fmt", "yuv420p")),
                ("open.mkv", ("-c:v", "libx264", "-x264-params", "open-gop=1:keyint=20:bframes=3",
                              "-pix_fmt", "yuv420p")),
                ("vp9.webm", ("-c:v", "libvpx-vp9", "-g", "50", "-c:a", "libopus")),
                ("vp8.webm", ("-c:v", "libvpx", "-g", "50", "-auto-alt-ref", "1", "-c:a", "libopus")),
                ("mpeg4.mov", ("-c:v", "mpeg4", "-g", "12"))):
            with self.subTest(name=name):
                self.check_frames(name, encoding)

    def check_frames(self, name, encoding):
        shutil.rmtree(self.videos, True)
        frames = self.write(name, *encoding)
        self.assertEqual(len(frames), FRAMES)
        groups = [batch["video"][0] for batch in self.loader(clip(20))]
        self.assertGreaterEqual(len(groups), 2)
        begins = self.runs(groups, frames)
        self.assertEqual(begins, sorted(begins))
        for every in (3, 7):
            clips = [batch["video"][0] for batch in self.loader(clip(4, every))]
            self.assertEqual(len(self.runs(clips, frames, every)), len(groups))

    def check_codec(self, codec, *containers):
        self.needs_encoder(CODECS[codec])
        for name in containers:
            for pixels in ("yuv420p", "yuv420p10le"):  # ten bits, as telephones write them
                with self.subTest(name=name, pixels=pixels):
                    self.check_frames(name, (*CODECS[codec], "-pix_fmt", pixels,
                                             *(("-c:a", "libopus") if name.endswith("webm") else ())))

    def test_frames_of_hevc(self):
        self.check_codec("hevc", "a.mp4", "a.mkv")

    def test_frames_of_hevc_in_open_groups(self):
        encoding = [one.replace("open-gop=0", "open-gop=1") for one in CODECS["hevc"]]
        self.needs_encoder(encoding)
        frames = self.write("a.mp4", *encoding, "-pix_fmt", "yuv420p")
        groups = [batch["video"][0] for batch in self.loader(clip(20))]
        self.assertEqual(len(groups), 1)  # behind its key frames others are shown before them
        self.runs(groups, frames)
        self.assertTrue((next(iter(self.loader(clip(FRAMES))))["video"][0] == frames).all())

    def test_frames_of_av1(self):
        self.check_codec("av1", "a.mp4", "a.webm")

    def test_frames_are_turned_as_ffmpeg_turns_them(self):
        self.write("a.mp4", *CODECS["h264"], "-pix_fmt", "yuv420p", frames=33)
        file = self.videos / "a.mp4"
        plain = file.read_bytes()
        seen = set()
        for across, down in (((ONE, 0), (0, ONE)), ((-ONE, 0), (0, ONE)), ((ONE, 0), (0, -ONE)),
                             ((-ONE, 0), (0, -ONE)), ((0, ONE), (ONE, 0)), ((0, -ONE), (ONE, 0)),
                             ((0, ONE), (-ONE, 0)), ((0, -ONE), (-ONE, 0)),
                             ((0, -3 * ONE), (ONE // 2, 0)), ((0, 0), (0, 0)), ((300, -ONE), (ONE, 300))):
            with self.subTest(across=across, down=down):
                file.write_bytes(turned(plain, across, down))
                size = (HEIGHT, WIDTH) if abs(across[0]) >= abs(across[1]) else (WIDTH, HEIGHT)
                frames = self.frames_of(file, size)
                made = next(iter(self.loader(clip(33, size=size))))["video"][0]
                self.assertEqual(made.shape, frames.shape)
                self.assertTrue((made == frames).all())
                seen.add(made.tobytes())
        self.assertEqual(len(seen), 8)

    def test_frames_of_other_formats_are_turned_as_ffmpeg_turns_them(self):
        for name, codec, pixels in (("a.mp4", "h264", "yuv444p"), ("b.mp4", "h264", "gray"),
                                    ("c.mp4", "h264", "yuv420p10le"), ("d.mp4", "hevc", "yuv420p10le"),
                                    ("e.mp4", "av1", "yuv420p"), ("f.mp4", "h264", "yuv422p"),
                                    ("g.mp4", "h264", "yuv422p10le")):
            with self.subTest(codec=codec, pixels=pixels):
                self.needs_encoder(CODECS[codec])
                shutil.rmtree(self.videos, True)
                self.write(name, *CODECS[codec], "-pix_fmt", pixels, frames=33)
                file = self.videos / name
                file.write_bytes(turned(file.read_bytes(), (0, -ONE), (ONE, 0)))
                frames = self.frames_of(file, (WIDTH, HEIGHT))
                made = next(iter(self.loader(clip(33, size=(WIDTH, HEIGHT)))))["video"][0]
                self.assertTrue((made == frames).all())

    def test_a_file_that_is_turned_between_two_runs_is_taken_apart_again(self):
        self.write("a.mp4", *CODECS["h264"], "-pix_fmt", "yuv420p", frames=33)
        file = self.videos / "a.mp4"
        upright = next(iter(self.loader(clip(33))))["video"][0]
        self.assertTrue((upright == self.frames_of(file)).all())
        file.write_bytes(turned(file.read_bytes(), (-ONE, 0), (0, -ONE)))
        made = next(iter(self.loader(clip(33))))["video"][0]
        self.assertTrue((made == self.frames_of(file)).all())
        self.assertFalse((made == upright).all())

    def test_any_matrix_turns_frames_or_is_named(self):
        frames = self.write("good.mp4", *CODECS["h264"], "-pix_fmt", "yuv420p", frames=33)
        plain = (self.videos / "good.mp4").read_bytes()
        draw = random.Random(5)
        numbers = [-2**31, 2**31 - 1, 0, 1, -1, ONE, -ONE]
        for i in range(12):
            (self.videos / f"any{i:02}.mp4").write_bytes(
                turned(plain, *((draw.choice(numbers), draw.choice(numbers)) for _ in range(2))))
        (self.videos / "odd.mp4").write_bytes(turned(plain, (ONE, -ONE), (ONE, ONE)))
        steps = [{"step": "clip", "frames": 8}, {"step": "resize", "size": [8, 8]}]
        made = [batch["video"][0] for batch in self.loader(steps)]
        log = self.daemon.log.read_text()
        self.assertIn("odd.mp4: its frames are to be turned by 45.0 degrees, and turns are by 90, 180 or 270",
                      log)
        refused = log.count("mp4: its frames are to be turned by ")
        self.assertEqual(len(made), len(list(self.videos.iterdir())) - refused)
        (self.videos / "odd.mp4").unlink()
        for file in self.videos.glob("any*"):
            file.unlink()
        self.runs([batch["video"][0] for batch in self.loader(clip(8))], frames)

    def test_every_frame_of_a_file_is_in_one_group(self):
        frames = self.write("a.mp4", "-c:v", "libx264", "-g", "32", "-bf", "2", "-keyint_min", "32",
                            "-sc_threshold", "0", "-pix_fmt", "yuv420p", frames=128)
        groups = [batch["video"][0] for batch in self.loader(clip(32))]
        self.assertEqual(len(groups), 4)
        self.assertTrue((np.concatenate(groups) == frames).all())

    def test_classes_and_a_batch(self):
        for label in ("jump", "run"):
            self.write(f"{label}/a.mp4", "-c:v", "libx264", "-g", "32", "-pix_fmt", "yuv420p", frames=64)
        steps = [{"step": "random_clip", "frames": 4, "every": 2},
                 {"step": "random_resized_crop", "size": [16, 24]}, {"step": "horizontal_flip"},
                 {"step": "normalise", "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]},
                 {"step": "layout", "order": "nchw"}]
        with self.loader(steps, 4, True) as loader:
            batch = next(iter(loader))
            self.assertEqual(loader.classes, ["jump", "run"])
        self.assertEqual((batch["video"].shape, batch["video"].dtype), ((4, 4, 3, 16, 24), np.float32))
        self.assertEqual(sorted(batch["label"].tolist()), [0, 0, 1, 1])

    def test_the_same_draws_for_each_frame_of_a_clip(self):
        # One picture all the time: frames of a clip are alike, however each clip is cropped.
        self.write("still.mp4", "-c:v", "libx264", "-g", "32", "-qp", "0", "-pix_fmt", "yuv444p",
                   source="smptebars", frames=96)
        steps = [{"step": "random_clip", "frames": 6, "every": 3},
                 {"step": "random_resized_crop", "size": [20, 20]}, {"step": "horizontal_flip"},
                 {"step": "colour_jitter", "brightness": 0.4, "contrast": 0.4}]
        seen = set()
        for _ in range(3):
            for batch in self.loader(steps, 1, True):
                for frame in batch["video"][0][1:]:
                    self.assertTrue((frame == batch["video"][0][0]).all())
                seen.add(batch["video"][0][0].tobytes())
        self.assertGreater(len(seen), 3)

    def test_a_group_is_decoded_once_for_four_jobs(self):
        for codec, encoding in CODECS.items():
            with self.subTest(codec=codec):
                self.needs_encoder(encoding)
                shutil.rmtree(self.videos, True)
                for i in range(4):
                    self.write(f"{codec}{i}.mp4", *encoding, "-pix_fmt", "yuv420p", frames=96)
                self.check_shared(4 * 3)

    def check_shared(self, groups):
        made = {}
        decoded = self.daemon.status()["decoded_hits"]
        self.take_clips(made, 0, epochs=2)
        self.assertEqual(len(made[0]), groups)
        self.assertEqual(self.daemon.status()["decoded_hits"] - decoded, groups)  # of the second epoch
        self.at_once(*(lambda i=i: self.take_clips(made, i, epochs=2) for i in range(1, 4)))
        self.assertEqual([len(made[i]) for i in range(4)], [groups] * 4)
        # Each group was decoded for the first job, and all else began from what was kept.
        self.assertEqual(self.daemon.status()["decoded_hits"] - decoded, (1 + 3 * 2) * groups)

    def take_clips(self, made, number, epochs):
        """A job with draws and an order of its own. Its clips of each group are in made[number]."""
        clips = made.setdefault(number, {})
        loader = self.loader(clip(4, 2, "random_clip"), 1, True, shuffle_seed=number, order="strict",
                             epochs=epochs)
        for _ in range(epochs):
            for batch in loader:
                clips.setdefault(int(batch.sample_keys[0]), []).append(batch["video"].copy())

    def at_once(self, *jobs):
        threads = [threading.Thread(target=job) for job in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)

    def test_four_jobs_at_once_decode_a_group_about_once(self):
        """Nothing is decoded when they begin, and each has an order of its own."""
        for i in range(12):
            self.write(f"{i:02}.mp4", *CODECS["h264"], "-pix_fmt", "yuv420p", frames=96)
        groups, made = 12 * 3, {}
        self.at_once(*(lambda i=i: self.take_clips(made, i, epochs=1) for i in range(4)))
        self.assertEqual([len(made[i]) for i in range(4)], [groups] * 4)
        decoded = 4 * groups - self.daemon.status()["decoded_hits"]
        self.assertGreaterEqual(decoded, groups)
        self.assertLess(decoded, 1.25 * groups)

    def test_hostile_files_are_named_and_the_others_served(self):
        frames = self.write("good.mp4", "-c:v", "libx264", "-g", "32", "-pix_fmt", "yuv420p", frames=64)
        whole = (self.videos / "good.mp4").read_bytes()
        self.write("b.mkv", "-c:v", "libx264", "-g", "32", "-pix_fmt", "yuv420p", frames=96)
        mkv = (self.videos / "b.mkv").read_bytes()
        (self.videos / "b.mkv").write_bytes(mkv[:len(mkv) * 2 // 3])  # its end is cut
        (self.videos / "c.mp4").write_bytes(bytes(1000))
        (self.videos / "d.webm").write_bytes(whole[:300])
        (self.videos / "e.mp4").write_bytes(b"")
        groups = [batch["video"][0] for batch in self.loader(clip(8), corrupt_ratio_max=0.5)]
        self.assertGreaterEqual(len(groups), 2)
        log = self.daemon.log.read_text()
        for name in ("c.mp4", "d.webm", "e.mp4"):
            self.assertIn(f"{name}: it is no MP4, QuickTime, Matroska or WebM file", log)
        self.runs(groups[-2:], frames)

    def test_a_damaged_group_is_corrupt(self):
        self.write("a.mp4", "-c:v", "mjpeg", "-q:v", "3", frames=64)
        data = bytearray((self.videos / "a.mp4").read_bytes())
        at = data.find(b"\xff\xda", len(data) // 8)  # the codes of a frame
        data[at + 20:at + 120] = b"\xff\xd9" * 50
        (self.videos / "a.mp4").write_bytes(bytes(data))
        loader = self.loader(clip(32), corrupt_ratio_max=0.9)
        marks = [int(batch.marks[0]) for batch in loader]
        self.assertEqual(sorted(marks), [0, 2])

    def test_what_is_no_video_is_refused(self):
        self.videos.mkdir()
        (self.videos / "a.txt").write_text("no video")
        with self.assertRaisesRegex(batchflow.ServiceError, "it is no MP4|no sample was found|has no groups"):
            len(self.loader(clip(4)))
        (self.folder / "rows").mkdir()
        np.save(self.folder / "rows" / "a.npy", np.zeros((4, 4)))
        with self.assertRaisesRegex(batchflow.ServiceError, "format: video|NumPy|no MP4|no sample"):
            len(batchflow.DataLoader(str(self.folder / "rows"), 2, pipeline=clip(4)))


if __name__ == "__main__":
    unittest.main()
