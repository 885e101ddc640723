"""What a plain job becomes by the packaged table: the documented terms, the hardening rows, nothing else."""

import re

import pytest
import yaml

from contract import keys
from testbed.mpijob import IMAGE, mpijob
from testbed.plane.jobs import template, without_record
from testbed.plane.webhook import REPOSITORY
from webhook import initscript
from webhook.engine import Request, evaluate
from webhook.objects.tree import Json
from webhook.rules.load import load_default

TABLE = load_default()
EXPECTED = yaml.safe_load((REPOSITORY / "tests" / "data" / "placed.yaml").read_text(encoding="utf-8"))
SHAPES = {
    1: ("alone", 1),
    2: ("pair", 2),
    3: ("alone", 1),
    4: ("ultraserver", 4),
    6: ("pairs", 2),
    8: ("ultraservers", 4),
    16: ("ultraservers", 4),
}
"""The row of placed.yaml and the node config, by the number of workers."""


def filled(node: Json, values: dict[str, str]) -> Json:
    """Returns a tree with every ``$(KEY)`` in its texts replaced."""
    if isinstance(node, dict):
        return {key: filled(value, values) for key, value in node.items()}
    if isinstance(node, list):
        return [filled(item, values) for item in node]
    if not isinstance(node, str):
        return node
    return re.sub(r"\$\(([a-zA-Z.]+)\)", lambda found: values[found[1]], node)


def assert_placed(job: Json, row: str, workers: int, node_config: int) -> None:
    """Asserts that both templates are exactly those of placed.yaml."""
    after = evaluate(TABLE, Request(job, "team-a", "uid-1")).after
    values = {"name": "train", "namespace": "team-a", "image": IMAGE, "script.init": initscript.text()}
    units = {1: keys.HOSTNAME, 2: keys.SERVER_2, 4: keys.SERVER_4}
    values |= {"workers": str(workers), "nodeConfig": str(node_config), "unit": units[node_config]}
    assert without_record(template(after, "Worker")) == filled(EXPECTED["workers"][row], values)
    assert without_record(template(after, "Launcher")) == filled(EXPECTED["launcher"], values)


@pytest.mark.parametrize("workers", SHAPES)
def test_a_plain_job_gets_exactly_the_terms_of_its_shape(workers: int) -> None:
    row, node_config = SHAPES[workers]
    assert_placed(mpijob(workers), row, workers, node_config)


@pytest.mark.parametrize(("config", "row"), [(1, "alone"), (2, "pairs"), (4, "ultraserver")])
def test_a_node_config_that_the_author_chose_is_the_one_they_get(config: int, row: str) -> None:
    assert_placed(mpijob(4, annotations={keys.NODE_CONFIG: str(config)}), row, 4, config)
