"""The state of the running planes with real nodes, for the report of a failed test."""

from collections.abc import Iterator
from pathlib import Path

from testbed.images.product import TARGETS
from testbed.nodes.plane import RealPlane

NAME = TARGETS["serving"]
LIST_LINES = 100
"""Maximum number of lines of a list by kubectl. The last lines are kept."""
LOG_LINES = 30
"""Maximum number of lines of a program's log. The last lines are kept."""
LIST_COMMANDS = ("get pods -o wide", "get events --sort-by=.metadata.creationTimestamp")
LOG_COMMAND = f"logs --namespace={NAME} --selector=app.kubernetes.io/part-of={NAME} --all-containers"
PROGRAMS = ("kube-scheduler", "kube-controller-manager")


def sections() -> Iterator[tuple[str, str]]:
    """Yields the title and the text of each section."""
    for plane in RealPlane.running:
        log = plane.programs.logs / "kube-apiserver.log"
        calls = [line for line in _read(log).splitlines() if "failed calling webhook" in line.lower()]
        yield f"{log}: calls of webhooks that failed", _last_lines("\n".join(calls), LOG_LINES)
        for command in LIST_COMMANDS:
            yield command, _last_lines(_kubectl(plane, f"{command} --all-namespaces"), LIST_LINES)
        yield (
            LOG_COMMAND,
            _kubectl(plane, f"{LOG_COMMAND} --prefix --tail=40 --ignore-errors --max-log-requests=50"),
        )
        for name in PROGRAMS:
            log = plane.programs.logs / f"{name}.log"
            yield str(log), _last_lines(_read(log), LOG_LINES)


def _kubectl(plane: RealPlane, command: str) -> str:
    output = plane.kubectl.run("--request-timeout=20s", *command.split(), check=False)
    return output.stdout + output.stderr


def _read(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")


def _last_lines(text: str, lines: int) -> str:
    return "\n".join(text.splitlines()[-lines:])
