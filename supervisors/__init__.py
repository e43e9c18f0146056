"""A strict supervisor tree for Trio: rules stated, each proven by a test or a model."""
