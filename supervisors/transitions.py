"""The transition table of a child. The model refuses any other edge; the docs' diagram is drawn from it."""

from __future__ import annotations

from supervisors.state import ChildState as S

TRANSITIONS: dict[tuple[S, S], str] = {
    (S.WAITING, S.STARTING): "its turn in a start walk",
    (S.WAITING, S.DONE): "stop accepted, or terminated",
    (S.WAITING, S.REMOVED): "terminated (temporary)",
    (S.STARTING, S.RUNNING): "reported started",
    (S.STARTING, S.STOPPING): "stop, termination, group restart, or start deadline",
    (S.STARTING, S.WAITING): "ended by itself during a group restart",
    (S.STARTING, S.BACKOFF): "failed start, to be retried",
    (S.STARTING, S.DONE): "ended for good",
    (S.STARTING, S.REMOVED): "ended (temporary), or a dynamic start failed",
    (S.RUNNING, S.DRAINING): "drain requested",
    (S.RUNNING, S.STOPPING): "cancel, or group restart",
    (S.RUNNING, S.BACKOFF): "ended, to be restarted",
    (S.RUNNING, S.WAITING): "ended by itself during a group restart",
    (S.RUNNING, S.DONE): "ended for good",
    (S.RUNNING, S.REMOVED): "ended (temporary)",
    (S.DRAINING, S.STOPPING): "drain deadline, or cancel overtook the drain",
    (S.DRAINING, S.DONE): "drained",
    (S.DRAINING, S.REMOVED): "drained (temporary)",
    (S.STOPPING, S.WAITING): "stopped; its group will restart it",
    (S.STOPPING, S.BACKOFF): "failed start, to be retried",
    (S.STOPPING, S.DONE): "stopped",
    (S.STOPPING, S.REMOVED): "stopped (temporary)",
    (S.BACKOFF, S.STARTING): "woke up",
    (S.BACKOFF, S.WAITING): "woke up; its group starts it in turn",
    (S.BACKOFF, S.DONE): "stop accepted, or terminated",
    (S.DONE, S.WAITING): "restart requested; a start walk will reach it",
    (S.DONE, S.STARTING): "restart requested",
    (S.DONE, S.REMOVED): "deleted",
}
