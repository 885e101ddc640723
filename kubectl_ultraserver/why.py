"""What a job waits for, in each of the ways by which jobs are placed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubectl_ultraserver.admitted import unmutated
from kubectl_ultraserver.containers import launcher, missing, unstarted
from kubectl_ultraserver.findings import Finding
from kubectl_ultraserver.kueue import queued
from kubectl_ultraserver.scheduling import homeless
from kubectl_ultraserver.verify import misplaced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubectl_ultraserver.findings import Case


def why(case: Case) -> list[Finding]:
    """Everything that a job waits for or that is wrong with it, the first cause first; pure.

    Empty for a job whose workers have their nodes and run.
    """
    if ended := case.ended():
        return [Finding("job", case.work.called.name, f"has ended: {ended}"), *unstarted(case)]
    return [finding for look in _LOOKS for finding in look(case)]


def _misplaced(case: Case) -> Iterator[Finding]:
    for problem in misplaced(case.work):
        yield Finding("node" if problem.kind == "node" else "ultraserver", problem.name, problem.text)


_LOOKS = (queued, missing, unmutated, homeless, unstarted, _misplaced, launcher)
