"""The seam to the broker: protocols, and three implementations proven by one conformance suite."""
