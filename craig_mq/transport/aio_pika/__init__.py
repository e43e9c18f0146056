"""The bridged transport: plain aio-pika connections (never robust ones) through trio-asyncio.

``bridge`` is the crossing between Trio and asyncio, ``wire`` the socket under aiormq, ``lifetime``
how ends reach whoever waits; ``broker``, ``connection``, ``channel`` and ``consumer`` satisfy the
protocols of ``craig_mq.transport.broker``. Importing this package imports the bridge and the client.
"""

from craig_mq.transport.aio_pika.broker import open_aio_pika_broker

__all__ = ["open_aio_pika_broker"]
