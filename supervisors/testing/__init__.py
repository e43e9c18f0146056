"""The test kit: seeded and exhaustive schedules, a fault at every checkpoint, laws, and a trace checker."""

from supervisors.testing.explore import Exploration, Scenario, Violation, explore, replay
from supervisors.testing.fingerprint import fingerprint
from supervisors.testing.monitor import LawBrokenError, Monitor
from supervisors.testing.schedule import (
    MissingInternalsError,
    controlled,
    require_internals,
    run_seeded,
)
from supervisors.testing.sweep import Fault, FaultPlan, InjectedError, Sweep, sweep
from supervisors.testing.trace import TraceChecker, TraceError, check_trace
from supervisors.testing.virtual_time import virtual_clock

__all__ = [
    "Exploration",
    "Fault",
    "FaultPlan",
    "InjectedError",
    "LawBrokenError",
    "MissingInternalsError",
    "Monitor",
    "Scenario",
    "Sweep",
    "TraceChecker",
    "TraceError",
    "Violation",
    "check_trace",
    "controlled",
    "explore",
    "fingerprint",
    "replay",
    "require_internals",
    "run_seeded",
    "sweep",
    "virtual_clock",
]
