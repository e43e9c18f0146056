"""Publishing events: durable, mandatory, confirmed, bounded, with an outcome for every one."""
