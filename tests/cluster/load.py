"""A steady load of creates: MPIJobs by dry run, and for each of them what came of it and when."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kube.api import ApiError
from kube.client import connect
from tests.cluster.jobs import template
from tests.helpers import mpijob
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kube.client import KubernetesApi

RATE = 8.0
"""Creates a second: a webhook that is away for a moment is missed, and a small machine keeps up."""
MOST_AT_ONCE = 64
"""Those that hang until the webhook's timeout must not keep others from being asked for."""


@dataclass(frozen=True)
class Admission:
    """One create.

    Attributes:
        at: seconds after the first one.
        seconds: until its answer.
        kept: whether its connection to the API server had been used before; otherwise it was its own.
        mutated: whether the job came out with what the webhook adds.
        error: what the API server, or the way to it, said against it; else empty.
    """

    at: float
    seconds: float
    kept: bool
    mutated: bool
    error: str = ""

    def __str__(self) -> str:
        """Names when, how long and what."""
        connection = "a kept connection" if self.kept else "a fresh connection"
        return f"{self.at:.1f} s, after {self.seconds:.2f} s, {connection}: {self.error or 'not mutated'}"


class Load:
    """What came of the creates so far."""

    def __init__(self, create: Callable[[int], Admission]) -> None:
        self._create = create
        self._asked: list[Future[Admission]] = []

    def ask(self, pool: ThreadPoolExecutor) -> None:
        """Begins one more, in a thread of the pool."""
        self._asked.append(pool.submit(self._create, len(self._asked)))

    @property
    def admissions(self) -> list[Admission]:
        """Those that were answered, in the order in which they were begun."""
        return [each.result() for each in tuple(self._asked) if each.done()]

    @property
    def failed(self) -> list[Admission]:
        """Those that the API server refused, or did not answer."""
        return [each for each in self.admissions if each.error]

    @property
    def unmutated(self) -> list[Admission]:
        """Those that came through without the webhook."""
        return [each for each in self.admissions if not each.error and not each.mutated]

    @property
    def lost(self) -> list[str]:
        """Every one that failed or was not mutated, in words that say when."""
        return [str(each) for each in self.admissions if each.error or not each.mutated]

    def more(self, count: int) -> None:
        """Waits until so many that begin from now on have been answered.

        Raises:
            AssertionError: they were not, in time.
        """
        first = len(self._asked)

        def answered() -> bool:
            later = self._asked[first:]
            return sum(each.done() for each in tuple(later)) >= count

        until(answered)

    def __str__(self) -> str:
        """The numbers of docs/operations.md: admissions, failed, unmutated, seconds."""
        done = self.admissions
        numbers = f"{len(done)} admissions, {len(self.failed)} failed, {len(self.unmutated)} unmutated"
        end = max((each.at + each.seconds for each in done), default=0.0)
        slowest = max((each.seconds for each in done), default=0.0)
        return f"{numbers}, {end:.0f} s, the slowest {slowest:.2f} s"


def places(kubeconfig: Path, namespace: str) -> bool:
    """Whether a job that is created now is admitted, and with what the webhook adds."""
    try:
        return _create(connect(kubeconfig), namespace)
    except ApiError:
        return False


def _create(api: KubernetesApi, namespace: str) -> bool:
    """Creates a job by dry run, and says whether it was mutated."""
    path = f"/apis/kubeflow.org/v2beta1/namespaces/{namespace}/mpijobs?dryRun=All"
    return "nodeSelector" in template(api.create(path, mpijob(4)), "Worker")["spec"]


@contextlib.contextmanager
def jobs_keep_coming(kubeconfig: Path, namespace: str, a_second: float = RATE) -> Iterator[Load]:
    """Creates jobs by dry run until the end of the ``with``, whether or not earlier ones were answered.

    Args:
        kubeconfig: of whoever creates them.
        namespace: where.
        a_second: how many begin in a second.

    Yields:
        What came of them; complete after the ``with``.
    """
    shared, began, stop = connect(kubeconfig), time.monotonic(), threading.Event()

    def create(number: int) -> Admission:
        kept, asked = number % 2 == 0, time.monotonic()
        error, mutated = "", False
        try:
            mutated = _create(shared if kept else connect(kubeconfig), namespace)
        except ApiError as refused:
            error = str(refused)
        return Admission(asked - began, time.monotonic() - asked, kept, mutated, error)

    load = Load(create)

    def pace(pool: ThreadPoolExecutor) -> None:
        for number in itertools.count():
            if stop.wait(max(0.0, began + number / a_second - time.monotonic())):
                return
            load.ask(pool)

    with ThreadPoolExecutor(MOST_AT_ONCE) as pool:
        pacing = threading.Thread(target=pace, args=(pool,))
        pacing.start()
        try:
            yield load
        finally:
            stop.set()
            pacing.join()
