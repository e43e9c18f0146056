"""The review experiment on the real runtime: the same four messages, modeled beside actual."""
