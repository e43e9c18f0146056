"""Chaos on a real RabbitMQ: a private node, a breakable network, and a checker that trusts neither."""
