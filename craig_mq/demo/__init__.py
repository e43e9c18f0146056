"""``craig-mq demo``: the main job on a mix of failures, then an account of every message."""
