"""Jobs as released versions mutated them: kept for ever, and the program that adds a version.

``python -m tests.released VERSION`` writes ``tests/data/released/VERSION.json``: every case as its author
wrote it, and what the present table and scripts add to it, as a JSON Patch. Run it once for a release, commit
what it writes, and never write it again: what a release made of a job is in people's clusters and files.

Parts of init scripts are kept once each, in ``scripts``; a patch names them as ``<<script FILE>>``.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jsonpatch

from testbed.mpijob import mpijob

Patch = Sequence[dict[str, Any]]

FOLDER = Path(__file__).parents[1] / "data" / "released"
SCRIPTS = FOLDER / "scripts"

_SCRIPT = re.compile(r"<<script ([\w.-]+)>>")

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TERM = {"labelSelector": {"matchLabels": {"app": "noisy"}}, "topologyKey": "kubernetes.io/hostname"}
ZONES = [
    {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]}
    for zone in ("a", "b")
]
OWN_INIT = {"name": "mine", "image": "example.invalid/mine", "command": ["sh", "-c", "date", "one", "two"]}


@dataclass(frozen=True)
class Kept:
    """A job and what a version made of it; ``table`` is the revision of that version's table."""

    version: str
    case: str
    table: str
    request: dict[str, str]
    job: dict[str, Any]
    mutated: dict[str, Any]


@cache
def versions() -> dict[str, dict[str, Kept]]:
    """What every version made of every case, by version and case. Read once: change a copy only."""
    return {path.stem: _read(path) for path in sorted(FOLDER.glob("*.json"))}


def _read(path: Path) -> dict[str, Kept]:
    text = _SCRIPT.sub(
        lambda found: _in_json((SCRIPTS / found[1]).read_text("utf-8")), path.read_text("utf-8")
    )
    found = json.loads(text)
    return {
        name: Kept(
            version=path.stem,
            case=name,
            table=found["table"],
            request=found["request"],
            job=kept["job"],
            mutated=jsonpatch.apply_patch(kept["job"], kept["patch"]),
        )
        for name, kept in found["cases"].items()
    }


def write(version: str, table: str, request: dict[str, str], patches: dict[str, Patch], script: str) -> None:
    """Keeps a version; its script only where no version before it had the same.

    Args:
        version: its name.
        table: the revision of its table.
        request: who created the jobs, where.
        patches: what it adds to each of ``cases()``.
        script: its init script.

    Raises:
        FileExistsError: If the version is kept already.
    """
    job_of = cases()
    parts = ",\n".join(
        f'  {_line(name)}: {{\n   "job": {_line(job_of[name])},\n   "patch": [\n'
        + ",\n".join(f"    {_line(operation)}" for operation in patch)
        + "\n   ]\n  }"
        for name, patch in patches.items()
    )
    head = f' "table": {_line(table)},\n "request": {_line(request)},\n "cases": {{\n'
    text = f"{{\n{head}{parts}\n }}\n}}\n"
    SCRIPTS.mkdir(parents=True, exist_ok=True)
    name = f"init-{hashlib.sha256(script.encode()).hexdigest()[:8]}.sh"
    (SCRIPTS / name).write_text(script, encoding="utf-8")
    text = text.replace(_in_json(script), f"<<script {name}>>")
    with (FOLDER / f"{version}.json").open("x", encoding="utf-8") as file:
        file.write(text)


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _in_json(text: str) -> str:
    """A text as it stands between the quotes of a JSON string."""
    return _line(text)[1:-1]


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
