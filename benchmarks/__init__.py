"""Measurements of craig_mq against its peers, all in one run on one private broker."""
