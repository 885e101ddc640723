"""Returns the rule tables for the cases in ``tests/rules/cases``. As a program, writes the snapshots."""

from functools import cache, partial
from pathlib import Path
from typing import Final

from tests.helpers import load_text
from tests.rules.tables import AWS_DOCUMENT, EXTENDS
from webhook.rows.table import Table
from webhook.rules.load import load_default, load_texts
from webhook.ruletests.cases import Case, cases_of
from webhook.ruletests.folder import read_files, write_snapshots
from webhook.ruletests.run import new_snapshots, run

CASES = Path(__file__).parent / "cases"
RULES = Path(__file__).parents[2] / "manifests" / "chart" / "rules"
COMPONENT_ROWS = """
families: [{name: trn2u, claims: {all-*: {takes: 16}}}]
values: {imagePullSecret: mine, gpuInstanceType: p5.48xlarge}
rules:
  - {name: healthy-nodes, mode: enforce}
  - {name: claims-for-opted-in, mode: enforce}
  - {name: kueue-level-above-pairs, mode: enforce}
"""


def table_with_files(pattern: str, text: str) -> Table:
    """Returns the packaged table, extended by the chart's files that match a glob, and then by a text."""
    texts = [(path.name, path.read_bytes()) for path in sorted(RULES.glob(pattern))]
    return load_texts([*texts, ("rules.yaml", EXTENDS + text)], pattern)


@cache
def document_table() -> Table:
    """Returns a table with only the rules of the AWS document."""
    return load_text(AWS_DOCUMENT, "document")


@cache
def components_table() -> Table:
    """Returns the packaged table with all files of the chart, and with three rules switched on."""
    return table_with_files("[0-9]*.yaml", COMPONENT_ROWS)


@cache
def kueue_table() -> Table:
    """Returns the packaged table with the chart's rows for Kueue."""
    return table_with_files("15-kueue.yaml", "")


RACK_FAMILY = """
families:
  - {name: nvl72, mode: enforce, units: [{label: topology.k8s.aws/ultraserver-id}]}
"""


@cache
def hyperpod_table() -> Table:
    """Returns the packaged table with the rows for Kueue and HyperPod, and racks with HyperPod's label."""
    return table_with_files("1[05]-*.yaml", RACK_FAMILY)


FAMILY_ROWS = """
families:
  - {name: trn3-gen1, mode: enforce, units: [{label: example.com/gen1}]}
  - {name: trn3-gen2, mode: enforce, units: [{label: example.com/gen2}]}
  - {name: nvl72, mode: enforce, units: [{label: nvidia.com/gpu.clique}]}
rules: [{name: claims-for-opted-in, mode: enforce}, {name: launcher-off-units, mode: enforce}]
"""


@cache
def families_table() -> Table:
    """Returns the packaged table with every family on, and the rows for Kueue and whole-job admission."""
    return table_with_files("[13][50]-[kp]*.yaml", FAMILY_ROWS)


TABLES: Final = {
    "packaged": load_default,
    "kueue": kueue_table,
    "hyperpod": hyperpod_table,
    "documented": document_table,
    "installed": partial(load_default, placement=True),
    "components": components_table,
    "families": families_table,
}
"""For each folder of cases, a function that returns the table for the cases."""


@cache
def cases(folder: str) -> list[Case]:
    return list(cases_of(read_files(CASES / folder), folder))


if __name__ == "__main__":
    for folder, load_table in TABLES.items():
        write_snapshots(CASES / folder, new_snapshots(run(load_table(), cases(folder))))
