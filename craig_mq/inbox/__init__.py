"""The inbox: each event has its effect once, within a retention window."""

from craig_mq.inbox.inbox import Effect, Inbox, open_inbox

__all__ = ["Effect", "Inbox", "open_inbox"]
