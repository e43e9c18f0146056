"""craig_mq itself under the benchmark: the whole runtime, nothing left out."""
