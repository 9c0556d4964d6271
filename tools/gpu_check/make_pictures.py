"""make_pictures.py FOLDER [COUNT]: the pictures that gpu_check and dali.py decode, made by all cores.

They are those of tools/bench/peers/pictures.py: synthetic, about 500 x 400, 4:2:0, quality 90 and 115 KB, the same at
each run with the same libraries."""

from __future__ import annotations

import multiprocessing
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench" / "peers"))
import pictures as peers  # noqa: E402


def make(job: tuple[Path, int, float]) -> int:
    folder, number, noise = job
    data = peers.picture(number, noise)
    (folder / f"{number:06}.jpg").write_bytes(data)
    return len(data)


def main() -> None:
    folder, count = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 2048
    folder.mkdir(parents=True, exist_ok=True)
    noise = peers.grain()
    with multiprocessing.Pool() as pool:
        sizes = pool.map(make, [(folder, number, noise) for number in range(count)], chunksize=16)
    print(f"{count} pictures in {folder}, {sum(sizes) / count / 1e3:.1f} KB each")


if __name__ == "__main__":
    main()
