"""Public test kit: brokers to break, deliveries to build, faults to plan."""
