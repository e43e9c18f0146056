"""The ledger for services: PostgreSQL through psycopg 3, many replicas at once."""
