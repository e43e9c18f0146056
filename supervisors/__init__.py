"""A strict supervisor tree for Trio: rules stated, each proven by a test or a model."""

from supervisors.backoff import Backoff
from supervisors.context import ChildContext
from supervisors.decide import step
from supervisors.entry import run_supervisor, supervised
from supervisors.errors import (
    ChildError,
    ChildLiveError,
    ClosedError,
    DuplicateChildError,
    IllegalInputError,
    IntensityError,
    NoSuchChildError,
    SettlementError,
    SpecError,
    StartError,
    StoppingError,
    StuckError,
    SupervisorError,
)
from supervisors.exits import (
    Cancelled,
    Completed,
    Drained,
    End,
    EndClass,
    EndRecord,
    Failed,
    Fatal,
    SettlementFailed,
    StartTimedOut,
    is_abnormal,
)
from supervisors.shutdown import Shutdown, sleep_or_shutdown
from supervisors.spec import Body, ChildSpec, RestartType, Strategy, SupervisorSpec
from supervisors.supervisor import Supervisor
from supervisors.tree import ChildCounts, ChildSnapshot, SupervisorSnapshot, render, to_json

__all__ = [
    "Backoff",
    "Body",
    "Cancelled",
    "ChildContext",
    "ChildCounts",
    "ChildError",
    "ChildLiveError",
    "ChildSnapshot",
    "ChildSpec",
    "ClosedError",
    "Completed",
    "Drained",
    "DuplicateChildError",
    "End",
    "EndClass",
    "EndRecord",
    "Failed",
    "Fatal",
    "IllegalInputError",
    "IntensityError",
    "NoSuchChildError",
    "RestartType",
    "SettlementError",
    "SettlementFailed",
    "Shutdown",
    "SpecError",
    "StartError",
    "StartTimedOut",
    "StoppingError",
    "Strategy",
    "StuckError",
    "Supervisor",
    "SupervisorError",
    "SupervisorSnapshot",
    "SupervisorSpec",
    "is_abnormal",
    "render",
    "run_supervisor",
    "sleep_or_shutdown",
    "step",
    "supervised",
    "to_json",
]
