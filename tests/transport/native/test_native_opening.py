"""The native transport is what open_broker opens unless told otherwise."""

from __future__ import annotations

import subprocess
import sys

from craig_mq.transport.native import NativeBroker
from craig_mq.transport.opening import open_broker


async def test_the_native_transport_is_the_default():
    """open_broker without a transport opens the native one, and shows no password."""
    async with open_broker("amqp://app:s3cr3t@127.0.0.1:5672/v") as broker:
        assert isinstance(broker, NativeBroker)
        assert broker.display_url == "amqp://app@127.0.0.1:5672/v"
        assert "s3cr3t" not in repr(broker)


def test_neither_asyncio_nor_a_bridge_is_imported():
    """Opening the native transport imports neither asyncio nor any of the bridge."""
    code = (
        "import sys; import craig_mq.transport.native; "
        "print(sorted({'asyncio', 'aio_pika', 'aiormq', 'trio_asyncio'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
