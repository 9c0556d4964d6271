"""One file a peer: its name, its packages, and how its jobs get batches."""
