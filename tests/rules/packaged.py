"""The tables by which the cases in ``tests/rules/cases`` run; as a program, writes their snapshots."""

from functools import cache, partial
from pathlib import Path
from typing import Final

from tests.helpers import load_text
from tests.rules.tables import DOCUMENT, EXTENDS
from webhook.rows.table import Table
from webhook.rules.load import load_default, load_texts
from webhook.ruletests.cases import Case, cases_of
from webhook.ruletests.folder import read_files, write_snapshots
from webhook.ruletests.run import new_snapshots, run

CASES = Path(__file__).parent / "cases"
RULES = Path(__file__).parents[2] / "manifests" / "chart" / "rules"
ON = """
families: [{name: trn2u, claims: {all-*: {takes: 16}}}]
values: {imagePullSecret: mine, gpuInstanceType: p5.48xlarge}
rules:
  - {name: healthy-nodes, mode: enforce}
  - {name: claims-for-opted-in, mode: enforce}
  - {name: kueue-level-above-pairs, mode: enforce}
"""


def laid_over(pattern: str, text: str) -> Table:
    """Returns the packaged table with files of the chart and a text laid over it."""
    texts = [(path.name, path.read_bytes()) for path in sorted(RULES.glob(pattern))]
    return load_texts([*texts, ("rules.yaml", EXTENDS + text)], pattern)


@cache
def documented() -> Table:
    """Returns the AWS document alone."""
    return load_text(DOCUMENT, "document")


@cache
def components() -> Table:
    """Returns all that the chart has, and what it waits for."""
    return laid_over("[0-9]*.yaml", ON)


@cache
def queued() -> Table:
    """Returns the packaged table where Kueue is in the cluster."""
    return laid_over("15-kueue.yaml", "")


RACKS = """
families:
  - {name: nvl72, mode: enforce, units: [{label: topology.k8s.aws/ultraserver-id}]}
"""


@cache
def hyperpod() -> Table:
    """Returns the same on HyperPod, with racks that have HyperPod's label."""
    return laid_over("1[05]-*.yaml", RACKS)


FAMILIES = """
families:
  - {name: trn3-gen1, mode: enforce, units: [{label: example.com/gen1}]}
  - {name: trn3-gen2, mode: enforce, units: [{label: example.com/gen2}]}
  - {name: nvl72, mode: enforce, units: [{label: nvidia.com/gpu.clique}]}
rules: [{name: claims-for-opted-in, mode: enforce}, {name: launcher-off-units, mode: enforce}]
"""


@cache
def families() -> Table:
    """The packaged table where every family is on, with Kueue and whole-job admission."""
    return laid_over("[13][50]-[kp]*.yaml", FAMILIES)


TABLES: Final = {
    "packaged": load_default,
    "kueue": queued,
    "hyperpod": hyperpod,
    "documented": documented,
    "installed": partial(load_default, placement=True),
    "components": components,
    "families": families,
}
"""By folder of cases the table that they are run by."""


@cache
def cases(folder: str) -> list[Case]:
    return list(cases_of(read_files(CASES / folder), folder))


if __name__ == "__main__":
    for name, by in TABLES.items():
        write_snapshots(CASES / name, new_snapshots(run(by(), cases(name))))
