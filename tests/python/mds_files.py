"""Writes shards as MosaicML Streaming's MDSWriter does."""

import json
import struct


def mds_shard(columns, rows):
    """`columns`: (name, encoding, its size where that is fixed, or None). A row has their bytes."""
    described = json.dumps({
        "column_encodings": [one[1] for one in columns], "column_names": [one[0] for one in columns],
        "column_sizes": [one[2] for one in columns], "compression": None, "format": "mds",
        "hashes": [], "size_limit": 67108864}, sort_keys=True).encode()
    samples = []
    for row in rows:
        sizes = b"".join(struct.pack("<I", len(value))
                         for value, column in zip(row, columns) if column[2] is None)
        samples.append(sizes + b"".join(row))
    at = 4 + 4 * (len(rows) + 1) + len(described)
    offsets = [at]
    for sample in samples:
        at += len(sample)
        offsets.append(at)
    return (struct.pack(f"<I{len(offsets)}I", len(rows), *offsets) + described +
            b"".join(samples))


def mds_index(shards):
    """index.json for {name: (columns, rows)}."""
    return json.dumps({"version": 2, "shards": [
        {"column_encodings": [one[1] for one in columns],
         "column_names": [one[0] for one in columns],
         "column_sizes": [one[2] for one in columns], "compression": None, "format": "mds",
         "hashes": [], "raw_data": {"basename": name, "bytes": len(mds_shard(columns, rows)),
                                    "hashes": {}},
         "samples": len(rows), "size_limit": 67108864, "zip_data": None}
        for name, (columns, rows) in shards.items()]}).encode()
