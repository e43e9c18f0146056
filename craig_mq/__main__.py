"""`python -m craig_mq` is the `craig-mq` command."""

from craig_mq.cli import main

main(prog_name="craig-mq")
