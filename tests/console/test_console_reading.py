"""Looking at quarantine through the console: leased, judged, filtered, given back."""

import trio

from craig_mq.core.capture_format import QuarantineReason


async def test_reading_holds_and_gives_back_in_place(ward, console, autojump_clock) -> None:
    """A reading holds everything until it is handed back, then every message is in its place again."""
    bodies = ward.fill(ward.capture(), ward.capture(body=b"\xff", reason=QuarantineReason.MALFORMED), b"junk")
    async with console() as client:
        await client.open()
        state = await client.ask("read")
        assert (state["reading"]["seen"], state["reading"]["complete"]) == (3, True)
        assert 500 < state["reading"]["seconds_left"] <= 540
        assert ward.quarantined == ()
        state = await client.ask("hand-back")
        assert state["reading"]["ended"] == "you handed it back"
        assert ward.quarantined == bodies
        await trio.sleep(1)
