"""The Trio runtime: the only place that waits."""
