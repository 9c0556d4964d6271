"""Makes golden_sound/: sounds, and what torchaudio makes of them. Needs torchaudio and soundfile.

    python3 make_golden_sound.py

A case is a line of cases.txt: its name, the sound's file, and the steps in YAML, with tabs between.
What is expected is in NAME.bin, of f32.
"""

from pathlib import Path

import numpy as np
import soundfile
import torch
import torchaudio.functional as F
import torchaudio.transforms as T

FOLDER = Path(__file__).parent / "golden_sound"


def tones(rate, seconds, channels, seed):
    random = np.random.default_rng(seed)
    at = np.arange(int(rate * seconds)) / rate
    rows = []
    for _ in range(channels):
        sound = sum(np.sin(2 * np.pi * hertz * at + random.uniform(0, 6)) * 0.2
                    for hertz in random.uniform(60, rate / 2.2, 4))
        rows.append(sound + random.normal(0, 0.02, at.size))
    return np.stack(rows, 1).astype(np.float32)


def write_sounds():
    """Of each encoding: rate, seconds, channels, subtype."""
    sounds = {"mono.wav": (16000, 0.15, 1, "PCM_16"), "stereo.wav": (22050, 0.1, 2, "PCM_16"),
              "float.wav": (8000, 0.2, 1, "FLOAT"), "bytes.wav": (11025, 0.15, 1, "PCM_U8"),
              "mono.flac": (44100, 0.08, 1, "PCM_24"), "stereo.flac": (16000, 0.12, 2, "PCM_16"),
              "mono.ogg": (22050, 0.3, 1, "VORBIS"), "short.wav": (16000, 0.01, 1, "PCM_16"),
              "opus.ogg": (48000, 0.2, 1, "OPUS")}
    for seed, (name, (rate, seconds, channels, subtype)) in enumerate(sounds.items()):
        kind = {"wav": "WAV", "flac": "FLAC", "ogg": "OGG"}[name.split(".")[1]]
        soundfile.write(FOLDER / name, tones(rate, seconds, channels, seed), rate, subtype=subtype,
                        format=kind)
    return list(sounds)


def decoded(name, rate, channels=1):
    values, of_file = soundfile.read(FOLDER / name, dtype="float32", always_2d=True)
    sound = torch.from_numpy(values.T.copy())
    if channels == 1:
        sound = sound.mean(0, keepdim=True)
    return F.resample(sound, of_file, rate) if of_file != rate else sound


def cut(sound, frames):
    sound = sound[:, :frames]
    return torch.nn.functional.pad(sound, (0, frames - sound.shape[1]))


def main():
    FOLDER.mkdir(exist_ok=True)
    for file in FOLDER.iterdir():
        file.unlink()
    lines = []

    def add(name, file, steps, expected):
        expected.contiguous().numpy().astype("<f4").tofile(FOLDER / f"{name}.bin")
        words = [one.partition(" ") for one in steps.split("; ")]
        written = ", ".join(f"{{step: {step}, {rest}}}" for step, _, rest in words)
        lines.append(f"{name}\t{file}\t[{written}]\n")

    for file in write_sounds():
        stem = file.replace(".", "-")
        for rate in (16000, 8000):
            add(f"{stem}-{rate}", file, f"decode_sound rate: {rate}", decoded(file, rate))
        add(f"{stem}-cut", file, "decode_sound rate: 11025; cut_sound frames: 1500",
            cut(decoded(file, 11025), 1500))
    for file in ("stereo.wav", "stereo.flac"):
        stem = file.replace(".", "-")
        add(f"{stem}-both", file, "decode_sound rate: 16000, channels: 2; cut_sound frames: 900",
            cut(decoded(file, 16000, 2), 900))
    mels = [("usual", "", dict(n_fft=400, n_mels=128)),
            ("speech", "n_fft: 512, window: 400, hop: 160, mels: 40, f_min: 20, f_max: 7600",
             dict(n_fft=512, win_length=400, hop_length=160, n_mels=40, f_min=20, f_max=7600)),
            ("odd-size", "n_fft: 450, hop: 101, mels: 23", dict(n_fft=450, hop_length=101, n_mels=23))]
    for name, parameters, options in mels:
        for scale in ("power", "decibels"):
            sound = cut(decoded("mono.flac", 16000), 1200)
            mel = T.MelSpectrogram(16000, **options)(sound)
            if scale == "decibels":
                mel = T.AmplitudeToDB("power")(mel)
            more = ", ".join(one for one in (parameters, f"scale: {scale}") if one)
            add(f"mel-{name}-{scale}", "mono.flac",
                f"decode_sound rate: 16000; cut_sound frames: 1200; mel_spectrogram {more}", mel)
    (FOLDER / "cases.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
