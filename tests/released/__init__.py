"""Jobs as released versions mutated them: fixtures kept for ever, and the program that adds a version.

``python -m tests.released VERSION`` writes ``tests/data/released/VERSION``: every case as its author wrote it
and as the present table and scripts mutate it. Run it once for a release, commit what it writes, and never
write it again: what a release made of a job is in people's clusters and files. ``0.1.0-early`` is what 0.1.0
made of them before it was released, ``0.1.0-other-scripts`` what one with other init scripts would make.
"""

from pathlib import Path
from typing import Any

from tests.helpers import mpijob

FOLDER = Path(__file__).parents[1] / "data" / "released"

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TERM = {"labelSelector": {"matchLabels": {"app": "noisy"}}, "topologyKey": "kubernetes.io/hostname"}
ZONES = [
    {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]}
    for zone in ("a", "b")
]
OWN_INIT = {"name": "mine", "image": "example.invalid/mine", "command": ["sh", "-c", "date", "one", "two"]}


def cases() -> dict[str, dict[str, Any]]:
    """The jobs of every version, by name: each as its author wrote it."""
    with_ranks = mpijob(3)
    with_ranks["spec"]["runLauncherAsWorker"] = True
    generated = mpijob(4, generate_name="train-")
    generated["metadata"]["managedFields"] = [{"manager": "kubectl", "time": "2026-01-01T00:00:00Z"}]
    affinity = {
        "podAntiAffinity": {REQUIRED: [TERM]},
        "podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "podAffinityTerm": TERM}]
        },
        "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": ZONES}},
    }
    return {
        "four-node": mpijob(4),
        "multi-node": mpijob(16),
        "two-node": mpijob(2),
        "single-node": mpijob(1),
        "generated-name": generated,
        "launcher-with-ranks": with_ranks,
        "own-init-container": mpijob(4, launcher_spec={"initContainers": [OWN_INIT]}),
        "own-affinity": mpijob(
            4,
            worker_spec={
                "affinity": affinity,
                "nodeSelector": {"kubernetes.io/arch": "amd64"},
                "tolerations": [{"key": "reserved", "operator": "Exists"}],
            },
        ),
    }
