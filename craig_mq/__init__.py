"""craig_mq: a Trio dead-letter runtime for RabbitMQ that settles without losing a message."""
