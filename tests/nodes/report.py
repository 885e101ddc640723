"""What is reported of the planes with real nodes that run when a test fails; soon they are gone."""

from collections.abc import Iterator
from pathlib import Path

from testbed.images.product import TARGETS
from testbed.nodes.plane import RealPlane

NAME = TARGETS["serving"]
LISTED = 100
"""Lines of what kubectl lists: the last ones."""
LOGGED = 30
"""Lines of a program's log: the last ones."""
LISTS = ("get pods -o wide", "get events --sort-by=.metadata.creationTimestamp")
LOGS = f"logs --namespace={NAME} --selector=app.kubernetes.io/part-of={NAME} --all-containers"
PROGRAMS = ("kube-scheduler", "kube-controller-manager")


def sections() -> Iterator[tuple[str, str]]:
    """Yields title and text of each part."""
    for plane in RealPlane.running:
        log = plane.programs.logs / "kube-apiserver.log"
        calls = [line for line in _read(log).splitlines() if "failed calling webhook" in line.lower()]
        yield f"{log}: calls of webhooks that failed", _last("\n".join(calls), LOGGED)
        for shown in LISTS:
            yield shown, _last(_kubectl(plane, f"{shown} --all-namespaces"), LISTED)
        yield LOGS, _kubectl(plane, f"{LOGS} --prefix --tail=40 --ignore-errors --max-log-requests=50")
        for name in PROGRAMS:
            log = plane.programs.logs / f"{name}.log"
            yield str(log), _last(_read(log), LOGGED)


def _kubectl(plane: RealPlane, command: str) -> str:
    output = plane.kubectl.run("--request-timeout=20s", *command.split(), check=False)
    return output.stdout + output.stderr


def _read(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")


def _last(text: str, lines: int) -> str:
    return "\n".join(text.splitlines()[-lines:])
