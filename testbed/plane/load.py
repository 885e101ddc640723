"""A steady load of creates: MPIJobs by dry run, and for each of them what came of it and when."""

import contextlib
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import urllib3

from testbed.mpijob import mpijob
from testbed.plane.jobs import template
from testbed.waiting import until

RATE = 8.0
"""Creates a second: a webhook that is away for a moment is missed, and a small machine keeps up."""
MOST_AT_ONCE = 64
"""Those that hang until the webhook's timeout must not keep others from being asked for."""
SECONDS = 60.0
"""The API server's own patience with a request: two webhooks that hang take 10 seconds of it."""


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
        """Returns names when, how long and what."""
        connection = "a kept connection" if self.kept else "a fresh connection"
        return f"{self.at:.1f} s, after {self.seconds:.2f} s, {connection}: {self.error or 'not mutated'}"


class Load:
    """What came of the creates so far."""

    def __init__(self, create: Callable[..., tuple[bool, str]]) -> None:
        self._create, self._began = create, time.monotonic()
        self._asked: list[Future[Admission]] = []

    def ask(self, pool: ThreadPoolExecutor) -> None:
        """Begins one more, in a thread of the pool."""
        kept = len(self._asked) % 2 == 0
        self._asked.append(pool.submit(self._ask, kept=kept))

    def _ask(self, *, kept: bool) -> Admission:
        at = self.seconds
        mutated, error = self._create(kept=kept)
        return Admission(at, self.seconds - at, kept, mutated, error)

    @property
    def admissions(self) -> list[Admission]:
        """Those that were answered, in the order in which they were begun."""
        return [call.result() for call in tuple(self._asked) if call.done() and not call.cancelled()]

    @property
    def failed(self) -> list[Admission]:
        """Those that the API server refused, or did not answer."""
        return [admission for admission in self.admissions if admission.error]

    @property
    def unmutated(self) -> list[Admission]:
        """Those that came through without the webhook."""
        return [admission for admission in self.admissions if not admission.error and not admission.mutated]

    @property
    def lost(self) -> list[str]:
        """Every one that failed or was not mutated, in words that say when."""
        return [str(admission) for admission in self.admissions if admission.error or not admission.mutated]

    def lost_outside(self, begin: float, end: float) -> list[str]:
        """Returns those of ``lost`` that were answered before a time or sent after another (``seconds``)."""
        return [
            str(admission)
            for admission in self.admissions
            if (admission.error or not admission.mutated)
            and (admission.at + admission.seconds < begin or admission.at > end)
        ]

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self._began

    def more(self, count: int) -> None:
        """Waits until this many that begin from now on have been answered.

        Raises:
            AssertionError: they were not, in time.
        """
        first = len(self._asked)

        def answered() -> bool:
            later = self._asked[first:]
            return sum(call.done() for call in tuple(later)) >= count

        until(answered, f"{count} more answers")

    def __str__(self) -> str:
        """Returns the numbers of docs/operations.md: admissions, failed, unmutated, seconds."""
        done = self.admissions
        numbers = f"{len(done)} admissions, {len(self.failed)} failed, {len(self.unmutated)} unmutated"
        end = max((admission.at + admission.seconds for admission in done), default=0.0)
        slowest = max((admission.seconds for admission in done), default=0.0)
        return f"{numbers}, {end:.0f} s, the slowest {slowest:.2f} s"


class Creator:
    """Creates the same job again and again, by dry run.

    Args:
        kubeconfig: as ``credentials`` writes it.
        namespace: where.
    """

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        config = json.loads(kubeconfig.read_text(encoding="utf-8"))
        self._cluster = config["clusters"][0]["cluster"]
        path = f"/apis/kubeflow.org/v2beta1/namespaces/{namespace}/mpijobs?dryRun=All"
        self._url = f"{self._cluster['server']}{path}"
        self._headers = {"Authorization": f"Bearer {config['users'][0]['user']['token']}"}
        self._kept = self._pool()

    def _pool(self) -> urllib3.PoolManager:
        authority = self._cluster["certificate-authority"]
        return urllib3.PoolManager(
            maxsize=MOST_AT_ONCE, ca_certs=authority, timeout=SECONDS, retries=False, headers=self._headers
        )

    def create(self, *, kept: bool) -> tuple[bool, str]:
        """Creates the job; over a connection of its own unless ``kept``.

        Returns:
            Whether it was mutated, and what was said against it.
        """
        pool = self._kept if kept else self._pool()
        try:
            response = pool.request("POST", self._url, json=mpijob(4))
            job = response.json()
        except (urllib3.exceptions.HTTPError, ValueError) as error:
            return False, str(error)
        finally:
            if not kept:
                pool.clear()
        if response.status != HTTPStatus.CREATED:
            return False, f"{response.status} {job.get('message')}"
        return "nodeSelector" in template(job, "Worker")["spec"], ""

    def close(self) -> None:
        """Closes the kept connections."""
        self._kept.clear()


def places(kubeconfig: Path, namespace: str) -> bool:
    """Returns whether a job that is created now is admitted, and with what the webhook adds."""
    with contextlib.closing(Creator(kubeconfig, namespace)) as creator:
        return creator.create(kept=True) == (True, "")


@contextlib.contextmanager
def jobs_keep_coming(kubeconfig: Path, namespace: str, a_second: float = RATE) -> Iterator[Load]:
    """Creates jobs by dry run until the end of the ``with``, whether or not earlier ones were answered.

    Args:
        kubeconfig: The kubeconfig of the user who creates them.
        namespace: where.
        a_second: how many begin in a second.

    Yields:
        What came of them; complete after the ``with``.
    """
    creator, stop = Creator(kubeconfig, namespace), threading.Event()
    load = Load(creator.create)

    def pace(pool: ThreadPoolExecutor) -> None:
        for number in itertools.count():
            if stop.wait(max(0.0, number / a_second - load.seconds)):
                return
            load.ask(pool)

    with contextlib.closing(creator), ThreadPoolExecutor(MOST_AT_ONCE) as pool:
        pacing = threading.Thread(target=pace, args=(pool,))
        pacing.start()
        try:
            yield load
        finally:
            stop.set()
            pacing.join()
            # Those that a busy machine has not come to are not asked for any more.
            pool.shutdown(cancel_futures=True)
