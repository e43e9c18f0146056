"""py-amqp, the library under kombu and Celery: blocking sockets, confirms by callback."""

from __future__ import annotations

import collections
from urllib.parse import unquote, urlsplit

import amqp

from benchmarks.peers.stopwatch import Stopwatch, Task


def main() -> None:
    task = Task.from_arguments()
    url = urlsplit(task.url)
    connection = amqp.Connection(
        host=f"{url.hostname}:{url.port}",
        userid=unquote(url.username or "guest"),
        password=unquote(url.password or "guest"),
        virtual_host=unquote(url.path.removeprefix("/")) or "/",
        confirm_publish=True,
    )
    connection.connect()
    channel = connection.channel()
    channel.confirm_select()
    pending: dict[int, int] = {}
    published, oldest, settled = 0, 1, 0

    # A publish drains the socket and so calls back: publishing from a callback would recurse.
    inbox: collections.deque[amqp.Message] = collections.deque()

    def on_confirm(tag: int, multiple: bool) -> None:
        nonlocal oldest, settled
        for confirmed in range(oldest if multiple else tag, tag + 1):
            original = pending.pop(confirmed, None)
            if original is not None:
                channel.basic_ack(original)
                settled += 1
        while oldest <= published and oldest not in pending:
            oldest += 1

    channel.events["basic_ack"].add(on_confirm)
    channel.basic_qos(prefetch_size=0, prefetch_count=task.prefetch, a_global=False)
    watch = Stopwatch()
    channel.basic_consume(task.source, callback=inbox.append)
    while settled < task.count:
        connection.drain_events()
        while inbox:
            message = inbox.popleft()
            published += 1
            pending[published] = message.delivery_tag
            copy = amqp.Message(message.body, delivery_mode=2)
            channel._basic_publish(copy, exchange="", routing_key=task.target, mandatory=True)
    watch.report()
    connection.close()


if __name__ == "__main__":
    main()
