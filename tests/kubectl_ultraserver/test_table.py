"""What the plugin has of the packaged table, and reads from an installation's table."""

import pytest

from kubectl_ultraserver.table import read
from placement.observe.model import UNITS, UnitKind, UnitSettings
from testbed import chart
from tests.kubectl_ultraserver.build import rules
from webhook.rules.load import load_default


def test_without_a_config_map_it_is_the_packaged_table() -> None:
    """Protects nodes and jobs of what a table has that it does not write down."""
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
    for nothing in (None, {}, {"data": {}}, {"data": {"a.yaml": "rules: ["}}, {"data": {"a.yaml": "[]"}}):
        assert read(nothing) == table


def test_rows_of_the_config_map_count_in_the_order_of_its_files() -> None:
    own = rules(
        "families: [{name: own, instanceTypes: [trn9], units: [{label: rack, nodes: 18}]}]\n"
        "candidates: {instanceTypeLabels: [type]}\n"
        "workloads: [{name: own, kinds: [example.com/v1/Train, batch/v1/Job]}]\n"
        "rules: [{name: a, placer: gate}, {name: b, placer: kueue, mode: shadow}, {name: c, placer: me}]\n"
    )
    own["data"] |= {"z.yaml": "rules: [{name: c, mode: off}]", "z.txt": "["}
    table = read(own)
    assert table.kinds == (*read(None).kinds, "example.com/v1/Train")
    assert table.units == UNITS | UnitSettings({"rack": UnitKind(18)})
    assert (table.types, table.type_label) == ((*read(None).types, "trn9"), "type")
    assert (table.placers, table.levels) == (frozenset({"whole-job"}), frozenset())


@pytest.mark.parametrize(
    ("added", "placers"), [((), {"whole-job"}), (("15-kueue.yaml",), {"whole-job", "kueue"})]
)
def test_the_installed_table_names_the_placer(added: tuple[str, ...], placers: set[str]) -> None:
    (objects,) = [each for each in chart.objects() if each["kind"] == "ConfigMap"]
    objects["data"] |= {name: (chart.RULES / name).read_text("utf-8") for name in added}
    assert read(objects).placers == placers
