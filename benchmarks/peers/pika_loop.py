"""pika's SelectConnection: its fastest adapter, everything in callbacks."""

from __future__ import annotations

import pika

from benchmarks.peers.stopwatch import Stopwatch, Task


class Loop:
    """The callbacks of one run."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.pending: dict[int, int] = {}
        self.published = 0
        self.oldest = 1
        self.settled = 0
        self.properties = pika.BasicProperties(delivery_mode=2, message_id="m")
        self.connection = pika.SelectConnection(
            pika.URLParameters(task.url),
            on_open_callback=self.on_open,
            on_close_callback=lambda connection, _reason: connection.ioloop.stop(),
        )

    def on_open(self, connection):
        connection.channel(on_open_callback=self.on_channel)

    def on_channel(self, channel):
        self.channel = channel
        channel.confirm_delivery(self.on_confirm, callback=self.on_confirm_mode)

    def on_confirm_mode(self, _frame):
        self.channel.basic_qos(prefetch_count=self.task.prefetch, callback=self.on_qos)

    def on_qos(self, _frame):
        self.watch = Stopwatch()
        self.channel.basic_consume(self.task.source, self.on_message)

    def on_message(self, channel, method, _properties, body):
        channel.basic_publish("", self.task.target, body, self.properties, mandatory=True)
        self.published += 1
        self.pending[self.published] = method.delivery_tag

    def on_confirm(self, frame):
        method = frame.method
        if method.NAME != "Basic.Ack":
            raise SystemExit(f"not confirmed: {method.NAME}")
        first = self.oldest if method.multiple else method.delivery_tag
        for tag in range(first, method.delivery_tag + 1):
            original = self.pending.pop(tag, None)
            if original is not None:
                self.channel.basic_ack(original)
                self.settled += 1
        while self.oldest <= self.published and self.oldest not in self.pending:
            self.oldest += 1
        if self.settled == self.task.count:
            self.watch.report()
            self.connection.close()


def main() -> None:
    loop = Loop(Task.from_arguments())
    loop.connection.ioloop.start()


if __name__ == "__main__":
    main()
