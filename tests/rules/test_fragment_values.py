"""What a rule adds is what the API server takes: texts of a form, words of a list, numbers of a range."""

import json

import pytest

from contract import keys
from tests.helpers import load_text
from tests.rules.fragments import REFUSED, TAKEN
from tests.rules.tables import HEAD, extended
from webhook.rules.lint_rules import unsupported_configs
from webhook.rules.problems import TableError


def problems(add: object, **row: object) -> list[str]:
    """Returns the messages about a table with a rule that adds this to workers."""
    rule = {"name": "mine", "reason": "x.", "match": {"role": "worker"}, "add": add, **row}
    return broken(f"rules: {json.dumps([rule])}\n")


def broken(text: str) -> list[str]:
    """Returns the messages about a table that extends the packaged one."""
    try:
        extended(text)
    except TableError as error:
        return [problem.message for problem in error.problems]
    return []


@pytest.mark.parametrize("name", REFUSED)
def test_a_fragment_that_the_api_server_would_refuse_in_every_job_is_refused(name: str) -> None:
    """Protects all jobs of a cluster: a patch that applies and is no Pod stops every one of them."""
    add, words = REFUSED[name]
    (message,) = problems(add)
    assert words in message


@pytest.mark.parametrize("name", TAKEN)
def test_what_the_api_server_takes_is_taken(name: str) -> None:
    """Protects tables from false problems."""
    assert problems(TAKEN[name]) == []


def test_a_node_config_that_the_init_script_does_not_know_is_refused() -> None:
    """Protects MPIJobs from an init script that fails late; a table with other units loads."""
    shape = "{name: eight, workers: 8, nodeConfig: 8, together: required, apart: required}"
    family = f"families: [{{name: trn2u, units: [{{label: eight, nodes: 8}}], shapes: [{shape}]}}]\n"
    (message,) = broken(family.replace("label: eight", f"label: {keys.SERVER_4}"))
    assert message.startswith("the init script of rule ")
    assert message.endswith(": use 1, 2 or 4, or another family")
    assert broken(family) == []
    ((_, again, _),) = unsupported_configs(extended(family))
    assert again == message


@pytest.mark.parametrize(
    ("quoted", "near"), [("job.nodeConfig", "shape.nodeConfig"), ("feild.home", "field.home")]
)
def test_an_unknown_placeholder_is_named_with_the_nearest(quoted: str, near: str) -> None:
    """Protects from lists of forty names."""
    (message,) = problems({}, warn=f"$({quoted})", match={"role": "worker", "workload": "mpijob"})
    assert message == f"unknown placeholder $({quoted}); did you mean {near!r}?"


def test_a_table_without_extends_gets_one_error() -> None:
    """Protects from three messages that do not say what to do."""
    with pytest.raises(TableError) as caught:
        load_text(HEAD + "rules: []\n", "mine.yaml")
    (problem,) = caught.value.problems
    assert "add `extends: default`" in problem.message
