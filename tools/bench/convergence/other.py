"""other.py FOLDER BATCH SEED PAUSE_S PIPELINE: a job beside the one that is measured.

Reports when it has its first batch, takes epochs until its standard input ends, and fails if a
whole epoch did not have each sample once.
"""

import json
import os
import sys
import time

import batchflow


def ended() -> bool:
    try:
        return os.read(0, 1) == b""
    except BlockingIOError:
        return False


def main() -> None:
    folder, batch_size, seed, pause_s, pipeline = sys.argv[1:]
    os.set_blocking(0, False)
    with batchflow.DataLoader(folder, int(batch_size), True, order="relaxed",
                              shuffle_seed=int(seed),
                              pipeline=batchflow.Pipeline(json.loads(pipeline))) as loader:
        for epoch in range(1 << 30):
            keys: list[int] = []
            for batch in loader:
                if epoch == 0 and not keys:
                    print("begun", flush=True)
                keys += batch.sample_keys.tolist()[:batch.samples - batch.fillers]
                time.sleep(float(pause_s))
                if ended():
                    return
            if sorted(keys) != list(range(loader.dataset_samples)):
                sys.exit(f"epoch {epoch} did not have each sample once: {sorted(keys)}")


main()
