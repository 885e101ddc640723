"""Tests that loading refuses a rule that adds a value which the API server would refuse."""

import json

import pytest

from contract import keys
from tests.helpers import load_text
from tests.rules.fragments import ACCEPTED, REFUSED
from tests.rules.tables import HEAD, extend_table
from webhook.rules import messages
from webhook.rules.lint_rules import unsupported_configs
from webhook.rules.problems import TableError


def messages_about_rule(add: object, **row: object) -> list[str]:
    """Returns the messages of the problems of a rule that adds a fragment to workers."""
    rule = {"name": "mine", "reason": "x.", "match": {"role": "worker"}, "add": add, **row}
    return messages_about(f"rules: {json.dumps([rule])}\n")


def messages_about(text: str) -> list[str]:
    """Returns the messages of the problems of a text that extends the packaged table."""
    try:
        extend_table(text)
    except TableError as error:
        return [problem.message for problem in error.problems]
    return []


@pytest.mark.parametrize("name", REFUSED)
def test_a_fragment_that_the_api_server_would_refuse_in_every_job_is_refused(name: str) -> None:
    """Protects all jobs of a cluster: the API server would refuse each job with an invalid pod template."""
    add, text = REFUSED[name]
    (message,) = messages_about_rule(add)
    assert text in message


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_fragment_that_the_api_server_accepts_is_accepted(name: str) -> None:
    """Protects authors of tables from false problems."""
    assert messages_about_rule(ACCEPTED[name]) == []


def test_a_node_config_that_the_init_script_does_not_support_is_refused() -> None:
    """Protects MPIJobs from an init script that fails. With units of another label, the table loads."""
    shape = "{name: eight, workers: 8, nodeConfig: 8, together: required, apart: required}"
    family = f"families: [{{name: trn2u, units: [{{label: eight, nodes: 8}}], shapes: [{shape}]}}]\n"
    (message,) = messages_about(family.replace("label: eight", f"label: {keys.SERVER_4}"))
    assert message == messages.unsupported_config("init-in-job-image", 8, "1, 2 or 4")
    assert messages_about(family) == []
    ((_, unsupported, _),) = unsupported_configs(extend_table(family))
    assert unsupported == message


@pytest.mark.parametrize(
    ("placeholder", "suggestion"), [("job.nodeConfig", "shape.nodeConfig"), ("feild.home", "field.home")]
)
def test_the_message_about_an_unknown_placeholder_suggests_a_similar_placeholder(
    placeholder: str, suggestion: str
) -> None:
    """Protects authors of tables from a list of all forty placeholders."""
    (message,) = messages_about_rule(
        {}, warn=f"$({placeholder})", match={"role": "worker", "workload": "mpijob"}
    )
    assert message == messages.unknown_placeholder(placeholder, [], f"; did you mean {suggestion!r}?")


def test_a_table_without_extends_gets_one_error() -> None:
    """Protects authors of tables from a message for each missing section, which would not name the remedy."""
    with pytest.raises(TableError) as caught:
        load_text(HEAD + "rules: []\n", "mine.yaml")
    (problem,) = caught.value.problems
    assert problem.message == messages.no_sections("candidates, workloads, families")
