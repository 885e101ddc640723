"""Documents name tests that are there, and the chart's schema has every value."""

import json
import re

import yaml

from testbed import chart
from tests.docs.blocks import REPOSITORY, text_of

TEST = re.compile(r"^def (test_\w+)", re.MULTILINE)


def test_every_test_that_the_threat_model_names_is_there() -> None:
    named = set(re.findall(r"`(test_\w+)`", text_of("docs/threat-model.md")))
    assert len(named) > 15
    sources = [path.read_text(encoding="utf-8") for path in (REPOSITORY / "tests").rglob("test_*.py")]
    there = {name for source in sources for name in TEST.findall(source)}
    assert named <= there, named - there


def test_the_schema_of_the_chart_has_every_value_and_no_other() -> None:
    values = yaml.safe_load((chart.CHART / "values.yaml").read_text(encoding="utf-8"))
    schema = json.loads((chart.CHART / "values.schema.json").read_text(encoding="utf-8"))
    assert {*schema["properties"]} == {*values, "global"}


def test_the_document_names_every_file_of_recommended_values() -> None:
    listed = (
        text_of("docs/install.md").partition("file for each of these sets of values:")[2].partition(".")[0]
    )
    assert set(re.findall(r"`([a-z-]+)`", listed)) == {*chart.RECOMMENDED, "pods"}
