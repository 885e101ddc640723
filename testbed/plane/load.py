"""A steady load of creates of MPIJobs by dry run, with the result and the time of each create."""

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
"""Creates in a second: enough to notice a short absence of the webhook, even on a small machine."""
MAX_PARALLEL = 64
"""Parallel creates: those that wait for the webhook's timeout must not delay others."""
SECONDS = 60.0
"""The API server's timeout of a request; two webhooks that do not answer take 10 seconds of it."""


@dataclass(frozen=True)
class Admission:
    """The result of a create.

    Attributes:
        at: The seconds from the first create to this create.
        seconds: The seconds until the answer.
        reused: Whether the connection was used before; otherwise it was new.
        mutated: Whether the webhook has changed the job.
        error: The error of the API server or of the connection; empty if there is none.
    """

    at: float
    seconds: float
    reused: bool
    mutated: bool
    error: str = ""

    def __str__(self) -> str:
        """Returns the time, the duration and the result."""
        connection = "a kept connection" if self.reused else "a fresh connection"
        return f"{self.at:.1f} s, after {self.seconds:.2f} s, {connection}: {self.error or 'not mutated'}"


class Load:
    """The results of the creates so far."""

    def __init__(self, create: Callable[..., tuple[bool, str]]) -> None:
        self._create, self._began = create, time.monotonic()
        self._creates: list[Future[Admission]] = []

    def begin_create(self, pool: ThreadPoolExecutor) -> None:
        """Begins one more create, in a thread of the pool."""
        reused = len(self._creates) % 2 == 0
        self._creates.append(pool.submit(self._run_create, reused=reused))

    def _run_create(self, *, reused: bool) -> Admission:
        at = self.seconds
        mutated, error = self._create(reused=reused)
        return Admission(at, self.seconds - at, reused, mutated, error)

    @property
    def admissions(self) -> list[Admission]:
        """The creates that were answered, in the order of their begin."""
        return [call.result() for call in tuple(self._creates) if call.done() and not call.cancelled()]

    @property
    def failed_creates(self) -> list[Admission]:
        """The creates that the API server refused or did not answer."""
        return [admission for admission in self.admissions if admission.error]

    @property
    def unmutated(self) -> list[Admission]:
        """The creates that succeeded without a change by the webhook."""
        return [admission for admission in self.admissions if not admission.error and not admission.mutated]

    @property
    def lost_creates(self) -> list[str]:
        """The creates that failed or were not mutated, as texts with the time."""
        return [str(admission) for admission in self.admissions if admission.error or not admission.mutated]

    def lost_creates_outside(self, begin: float, end: float) -> list[str]:
        """Returns the creates of ``lost_creates`` that were answered before ``begin`` or sent after ``end``."""
        return [
            str(admission)
            for admission in self.admissions
            if (admission.error or not admission.mutated)
            and (admission.at + admission.seconds < begin or admission.at > end)
        ]

    @property
    def seconds(self) -> float:
        """The seconds since the load began."""
        return time.monotonic() - self._began

    def wait_for_creates(self, count: int) -> None:
        """Waits until this many creates that begin from now on are answered.

        Raises:
            AssertionError: The time is over.
        """
        first = len(self._creates)

        def answered() -> bool:
            later = self._creates[first:]
            return sum(call.done() for call in tuple(later)) >= count

        until(answered, f"{count} more answers")

    def __str__(self) -> str:
        """Returns the numbers of docs/operations.md: admissions, failed, unmutated, seconds."""
        answered = self.admissions
        numbers = f"{len(answered)} admissions, {len(self.failed_creates)} failed, {len(self.unmutated)} unmutated"
        end = max((admission.at + admission.seconds for admission in answered), default=0.0)
        slowest = max((admission.seconds for admission in answered), default=0.0)
        return f"{numbers}, {end:.0f} s, the slowest {slowest:.2f} s"


class Creator:
    """Creates the same job again and again, by dry run.

    Args:
        kubeconfig: A kubeconfig that ``credentials`` has written.
        namespace: The namespace of the job.
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
            maxsize=MAX_PARALLEL, ca_certs=authority, timeout=SECONDS, retries=False, headers=self._headers
        )

    def create(self, *, reused: bool) -> tuple[bool, str]:
        """Creates the job, over a used connection (``reused``) or a new one.

        Returns:
            Whether the job was mutated, and the error if there is one.
        """
        pool = self._kept if reused else self._pool()
        try:
            response = pool.request("POST", self._url, json=mpijob(4))
            job = response.json()
        except (urllib3.exceptions.HTTPError, ValueError) as error:
            return False, str(error)
        finally:
            if not reused:
                pool.clear()
        if response.status != HTTPStatus.CREATED:
            return False, f"{response.status} {job.get('message')}"
        return "nodeSelector" in template(job, "Worker")["spec"], ""

    def close(self) -> None:
        """Closes the kept connections."""
        self._kept.clear()


def webhook_mutates_jobs(kubeconfig: Path, namespace: str) -> bool:
    """Returns whether a new job is admitted, and changed by the webhook."""
    with contextlib.closing(Creator(kubeconfig, namespace)) as creator:
        return creator.create(reused=True) == (True, "")


@contextlib.contextmanager
def steady_load(kubeconfig: Path, namespace: str, per_second: float = RATE) -> Iterator[Load]:
    """Creates jobs by dry run until the end of the ``with``, without waits for answers.

    Args:
        kubeconfig: The kubeconfig of the user who creates the jobs.
        namespace: The namespace of the jobs.
        per_second: The number of creates that begin in a second.

    Yields:
        The results, which are complete after the ``with``.
    """
    creator, stop = Creator(kubeconfig, namespace), threading.Event()
    load = Load(creator.create)

    def pace(pool: ThreadPoolExecutor) -> None:
        for number in itertools.count():
            if stop.wait(max(0.0, number / per_second - load.seconds)):
                return
            load.begin_create(pool)

    with contextlib.closing(creator), ThreadPoolExecutor(MAX_PARALLEL) as pool:
        pacing = threading.Thread(target=pace, args=(pool,))
        pacing.start()
        try:
            yield load
        finally:
            stop.set()
            pacing.join()
            # Creates that have not begun yet are cancelled.
            pool.shutdown(cancel_futures=True)
