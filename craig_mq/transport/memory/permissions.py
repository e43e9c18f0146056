"""What a user may do, as RabbitMQ checks it: regular expressions over names."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

import attrs

from craig_mq.transport.memory.profiles import Profile
from craig_mq.transport.memory.refusals import Method, access_refused

Access: TypeAlias = Literal["configure", "write", "read"]
Resource: TypeAlias = Literal["queue", "exchange"]


@attrs.define(frozen=True, slots=True)
class Permissions:
    """Three patterns, each found anywhere in a name, as ``rabbitmqctl set_permissions`` takes them."""

    configure: str = ".*"
    write: str = ".*"
    read: str = ".*"

    def allow(self, access: Access, name: str) -> bool:
        """Tell whether this access to a name is granted. The default exchange is ``amq.default``."""
        pattern: str = getattr(self, access)
        return re.search(pattern, name) is not None


@attrs.define(frozen=True, slots=True)
class Guard:
    """The permissions of one user, ready to refuse."""

    user: str
    permissions: Permissions
    vhost: str
    profile: Profile

    def check(self, access: Access, resource: Resource, name: str, method: Method) -> None:
        """Raise Refused (403) unless the user has this access."""
        shown = name or "amq.default"
        if self.permissions.allow(access, shown):
            return
        prefix = f"{access} access" if self.profile.names_permission else "access"
        text = f"{prefix} to {resource} '{shown}' in vhost '{self.vhost}' refused for user '{self.user}'"
        raise access_refused(text, method)
