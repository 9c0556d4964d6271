"""One file a peer: what it is, what it takes, and how its jobs get batches."""
