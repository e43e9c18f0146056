"""Random workloads, faults and operators against the real runtime, in virtual time, judged by checkers."""
