"""``craig-mq review live``: what it prints and how it exits."""

import json

from click.testing import CliRunner

from craig_mq.cli.review import review_group


def invoke(*arguments):
    """Run the command in process, on the embedded broker whatever the environment says."""
    return CliRunner(env={"CRAIG_MQ_AMQP_URL": None, "COLUMNS": "200"}).invoke(
        review_group, ["live", *arguments]
    )


def test_both_sides_and_each_difference_are_printed():
    """Modeled and actual stand below each other, message by message, then every difference and its reason."""
    done = invoke("--set", "identity=new")
    assert done.exit_code == 0, done.output
    lines = [" ".join(line.split()) for line in done.output.splitlines()]
    assert "uncertain modeled 2 + 1 - 2 1 uncertain/2 acked" in lines
    assert "actual 2 + 1 - 2 1 uncertain/2 acked" in lines
    assert "Effects (5) and end states are exactly the modeled ones." in lines
    assert "* a lost ack ends its session" in done.output
    assert "unexplained" not in done.output


def test_the_json_holds_both_sides_and_the_trace():
    """`--json` prints one object with both sides, times, receives, effects, verdicts and differences."""
    document = json.loads(invoke("--json", "--set", "action=uncertain").output)
    assert document["agrees"] is True
    assert document["messages"]["uncertain"]["actual"] == document["messages"]["uncertain"]["modeled"]
    assert document["verdicts"] == {"uncertain": "absorbed"}
    assert len(document["effects"]) == 2
    assert document["unexplained"] == []


def test_a_wrong_parameter_and_tls_are_refused():
    """A refused parameter and a URL whose connection the proxy cannot cut exit 2 with one line."""
    for arguments in (["--set", "max_receives=0"], ["--amqp", "amqps://localhost"]):
        done = invoke(*arguments)
        assert done.exit_code == 2
        assert done.output.count("\n") == 1
