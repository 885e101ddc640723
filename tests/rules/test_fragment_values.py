"""What a rule adds is what the API server takes: texts of a form, words of a list, numbers of a range."""

import json

import pytest

from tests.helpers import load_text
from tests.rules.tables import HEAD, extended
from webhook.rules.problems import TableError


def problems(add: object, **row: object) -> list[str]:
    """The messages about a table with a rule that adds this to workers."""
    rule = {"name": "mine", "reason": "x.", "match": {"role": "worker"}, "add": add, **row}
    return broken(f"rules: {json.dumps([rule])}\n")


def broken(text: str) -> list[str]:
    """The messages about a table that extends the packaged one."""
    try:
        extended(text)
    except TableError as error:
        return [problem.message for problem in error.problems]
    return []


def spec(**fields: object) -> dict[str, object]:
    return {"spec": fields}


def container(**fields: object) -> dict[str, object]:
    return spec(containers=[{"name": "main", **fields}])


def requirement(**fields: object) -> dict[str, object]:
    terms = [{"matchExpressions": [{"key": "a", **fields}]}]
    return spec(
        affinity={
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        }
    )


REFUSED = {
    "effect": (spec(tolerations=[{"key": "a", "effect": "NoShedule"}]), "did you mean 'NoSchedule'?"),
    "operator": (spec(tolerations=[{"key": "a", "operator": "Exist"}]), "did you mean 'Exists'?"),
    "value of Exists": (
        spec(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]),
        "takes no value",
    ),
    "no key": (spec(tolerations=[{"effect": "NoSchedule"}]), "its operator must be Exists"),
    "key of a taint": (spec(tolerations=[{"key": "a b", "operator": "Exists"}]), "is not a key of a label"),
    "operator of a node": (requirement(operator="Equals", values=["b"]), "is not one of In, NotIn"),
    "no values": (requirement(operator="In"), "operator In needs values"),
    "values of Exists": (requirement(operator="Exists", values=["b"]), "operator Exists takes no values"),
    "label": ({"metadata": {"labels": {"a": "b c"}}}, "is not a value of a label"),
    "long label": ({"metadata": {"labels": {"a": "b" * 64}}}, "is not a value of a label"),
    "key": ({"metadata": {"labels": {"a/b/c": "d"}}}, "is not a key of a label"),
    "selector": (spec(nodeSelector={"a": "b/c"}), "is not a value of a label"),
    "pull policy": (container(imagePullPolicy="always"), "did you mean 'Always'?"),
    "restart policy": (spec(restartPolicy="OnFail"), "did you mean 'OnFailure'?"),
    "variable": (container(env=[{"name": "A=B", "value": "c"}]), "is not the name of a variable"),
    "volume": (spec(volumes=[{"name": "My Volume", "emptyDir": {}}]), "is not a name there"),
    "container": (spec(containers=[{"name": "main_1"}]), "is not a name there"),
    "quantity": (container(resources={"limits": {"cpu": "2 cores"}}), "is not a quantity, such as"),
    "port": (container(ports=[{"containerPort": 70000}]), "is not between 1 and 65535"),
    "termination": (
        container(terminationMessagePolicy="FallbackToLogs"),
        "did you mean 'FallbackToLogsOnError'?",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_fragment_that_the_api_server_would_refuse_in_every_job_is_refused(name: str) -> None:
    """Protects all jobs of a cluster: a patch that applies and is no Pod stops every one of them."""
    add, words = REFUSED[name]
    (message,) = problems(add)
    assert words in message


TAKEN = {
    "every taint": spec(tolerations=[{"operator": "Exists"}]),
    "placeholders": {"metadata": {"labels": {"a": "$(job.namespace)"}}},
    "policy of a value": container(imagePullPolicy="$(value.initImage)"),
    "empty label": {"metadata": {"labels": {"example.com/a": ""}}},
    "relaxed variable": container(env=[{"name": "a.b-c d", "value": "e"}]),
    "greater": requirement(operator="Gt", values=["1"]),
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_the_api_server_takes_is_taken(name: str) -> None:
    """Protects tables from false problems."""
    assert problems(TAKEN[name]) == []


def test_a_node_config_that_the_init_script_does_not_know_is_refused() -> None:
    """Protects MPIJobs from an init script that fails late; machines of another sort may have it."""
    shape = "{name: eight, workers: 8, nodeConfig: 8, topologyKey: KEY, together: required, apart: required}"
    (message,) = broken(f"shapes: [{shape.replace('KEY', 'neuron.amazonaws.com/ultraserver-server-id-8')}]\n")
    assert message.startswith("8 is no node config of the init script, which rule ")
    assert message.endswith(": say 1, 2 or 4")
    assert broken(f"shapes: [{shape.replace('KEY', 'example.com/rack')}]\n") == []


@pytest.mark.parametrize(
    ("quoted", "near"), [("job.nodeConfig", "shape.nodeConfig"), ("feild.home", "field.home")]
)
def test_an_unknown_placeholder_is_named_with_the_nearest(quoted: str, near: str) -> None:
    """Protects from lists of forty names."""
    (message,) = problems({}, warn=f"$({quoted})", match={"role": "worker", "workload": "mpijob"})
    assert message == f"unknown placeholder $({quoted}); did you mean {near!r}?"


def test_a_table_without_extends_is_told_of_it_once() -> None:
    """Protects from three messages that do not say what to do."""
    with pytest.raises(TableError) as caught:
        load_text(HEAD + "rules: []\n", "mine.yaml")
    (problem,) = caught.value.problems
    assert "add `extends: default`" in problem.message
