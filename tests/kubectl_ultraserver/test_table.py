"""Tests of the parts of the rule table that the plugin reads: of the packaged table and of a ConfigMap."""

import pytest

from kubectl_ultraserver.table import read
from placement.observe.model import UNITS, UnitKind, UnitSettings
from testbed import chart
from tests.kubectl_ultraserver.build import rules
from webhook.rules.load import load_default


def test_without_a_readable_config_map_the_packaged_table_is_used() -> None:
    """The plugin reads the table without the webhook's code, and must get the same values."""
    packaged = load_default()
    kinds = [kind for row in packaged.workloads for kind in row.kinds if kind != "v1/Pod"]
    table = read(None)
    assert table.kinds == tuple(dict.fromkeys(kinds))
    assert (table.types, table.placers) == (packaged.enabled_families[0].instance_types, frozenset())
    assert table.type_label == packaged.candidates.instance_type_labels[0]
    assert table.units.devices == set(packaged.resources)
    assert {(unit.label, unit.nodes) for row in packaged.enabled_families for unit in row.units} <= {
        (key, kind.nodes) for key, kind in UNITS.kinds.items()
    }
    for config_map in (None, {}, {"data": {}}, {"data": {"a.yaml": "rules: ["}}, {"data": {"a.yaml": "[]"}}):
        assert read(config_map) == table


def test_rows_of_the_config_map_are_merged_in_the_order_of_its_files() -> None:
    config_map = rules(
        "families: [{name: own, instanceTypes: [trn9], units: [{label: rack, nodes: 18}]}]\n"
        "candidates: {instanceTypeLabels: [type]}\n"
        "workloads: [{name: own, kinds: [example.com/v1/Train, batch/v1/Job]}]\n"
        "rules: [{name: a, placer: gate}, {name: b, placer: kueue, mode: shadow}, {name: c, placer: me}]\n"
    )
    config_map["data"] |= {"z.yaml": "rules: [{name: c, mode: off}]", "z.txt": "["}
    table = read(config_map)
    assert table.kinds == (*read(None).kinds, "example.com/v1/Train")
    assert table.units == UNITS | UnitSettings({"rack": UnitKind(18)})
    assert (table.types, table.type_label) == ((*read(None).types, "trn9"), "type")
    assert (table.placers, table.levels) == (frozenset({"whole-job"}), frozenset())


@pytest.mark.parametrize(
    ("files", "placers"), [((), {"whole-job"}), (("15-kueue.yaml",), {"whole-job", "kueue"})]
)
def test_the_placers_are_read_from_the_rules_of_the_chart(files: tuple[str, ...], placers: set[str]) -> None:
    (config_map,) = [obj for obj in chart.objects() if obj["kind"] == "ConfigMap"]
    config_map["data"] |= {name: (chart.RULES / name).read_text("utf-8") for name in files}
    assert read(config_map).placers == placers
