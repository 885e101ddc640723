"""Creates MPIJobs by dry run at a steady rate, and records the result and the time of each create."""

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
"""Creates per second: enough to notice that the webhook is absent for a moment, even on a small machine."""
MAX_PARALLEL = 64
"""The maximum number of parallel creates. Creates that wait for the webhook must not delay other creates."""
TIMEOUT_SECONDS = 60.0
"""The timeout of a create, as in the API server. Two webhooks that do not answer take 10 seconds of it."""


@dataclass(frozen=True)
class Admission:
    """The result of a create.

    Attributes:
        at: The seconds from the first create to this create.
        seconds: The seconds until the answer.
        reused: Whether the create reused a connection, instead of opening a new connection.
        mutated: Whether the webhook has changed the job.
        error: The error of the API server or of the connection; empty for no error.
    """

    at: float
    seconds: float
    reused: bool
    mutated: bool
    error: str = ""

    def __str__(self) -> str:
        """Returns the time, the duration and the result."""
        connection = "a reused connection" if self.reused else "a new connection"
        return f"{self.at:.1f} s, after {self.seconds:.2f} s, {connection}: {self.error or 'not mutated'}"


class Load:
    """Begins creates in threads, and has the results of all creates so far."""

    def __init__(self, create: Callable[..., tuple[bool, str]]) -> None:
        self._create, self._began = create, time.monotonic()
        self._creates: list[Future[Admission]] = []

    def begin_create(self, pool: ThreadPoolExecutor) -> None:
        """Begins a create in a thread of the pool. Every second create opens a new connection."""
        reused = len(self._creates) % 2 == 0
        self._creates.append(pool.submit(self._run_create, reused=reused))

    def _run_create(self, *, reused: bool) -> Admission:
        at = self.seconds
        mutated, error = self._create(reused=reused)
        return Admission(at, self.seconds - at, reused, mutated, error)

    @property
    def admissions(self) -> list[Admission]:
        """The creates that have ended, in the order in which they began."""
        ended = (create for create in tuple(self._creates) if create.done() and not create.cancelled())
        return [create.result() for create in ended]

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
        """The creates that failed or were not mutated, as texts with the time and the error."""
        return [str(admission) for admission in self.admissions if admission.error or not admission.mutated]

    def lost_creates_outside(self, begin: float, end: float) -> list[str]:
        """Returns the `lost_creates` that were answered before ``begin`` or sent after ``end``."""
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
        """Waits until this many creates that begin from now on have ended.

        Raises:
            NotYetError: The creates do not end in time.
        """
        first = len(self._creates)

        def have_ended() -> bool:
            new_creates = self._creates[first:]
            return sum(create.done() for create in tuple(new_creates)) >= count

        until(have_ended, f"{count} more answers")

    def __str__(self) -> str:
        """Returns the numbers of docs/operations.md: admissions, failed, unmutated, seconds."""
        admissions, failed_count = self.admissions, len(self.failed_creates)
        numbers = f"{len(admissions)} admissions, {failed_count} failed, {len(self.unmutated)} unmutated"
        end = max((admission.at + admission.seconds for admission in admissions), default=0.0)
        slowest = max((admission.seconds for admission in admissions), default=0.0)
        return f"{numbers}, {end:.0f} s, the slowest {slowest:.2f} s"


class Creator:
    """Creates the same job by dry run, any number of times.

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
        self._reused_pool = self._pool()

    def _pool(self) -> urllib3.PoolManager:
        authority = self._cluster["certificate-authority"]
        return urllib3.PoolManager(
            maxsize=MAX_PARALLEL,
            ca_certs=authority,
            timeout=TIMEOUT_SECONDS,
            retries=False,
            headers=self._headers,
        )

    def create(self, *, reused: bool) -> tuple[bool, str]:
        """Creates the job over a reused or a new connection.

        Returns:
            Whether the job was mutated, and the error; an empty text for no error.
        """
        pool = self._reused_pool if reused else self._pool()
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
        """Closes the reused connections."""
        self._reused_pool.clear()


def webhook_mutates_jobs(kubeconfig: Path, namespace: str) -> bool:
    """Returns whether the API server accepts a new job, and the webhook changes the job."""
    with contextlib.closing(Creator(kubeconfig, namespace)) as creator:
        return creator.create(reused=True) == (True, "")


@contextlib.contextmanager
def steady_load(kubeconfig: Path, namespace: str, per_second: float = RATE) -> Iterator[Load]:
    """Creates jobs by dry run until the end of the ``with``, at this rate even if answers are late.

    Args:
        kubeconfig: The kubeconfig of the user who creates the jobs.
        namespace: The namespace of the jobs.
        per_second: The number of creates that begin in a second.

    Yields:
        The load, whose results are complete after the ``with``.
    """
    creator, stop = Creator(kubeconfig, namespace), threading.Event()
    load = Load(creator.create)

    def begin_creates(pool: ThreadPoolExecutor) -> None:
        for number in itertools.count():
            if stop.wait(max(0.0, number / per_second - load.seconds)):
                return
            load.begin_create(pool)

    with contextlib.closing(creator), ThreadPoolExecutor(MAX_PARALLEL) as pool:
        thread = threading.Thread(target=begin_creates, args=(pool,))
        thread.start()
        try:
            yield load
        finally:
            stop.set()
            thread.join()
            # Creates that have not begun yet are cancelled.
            pool.shutdown(cancel_futures=True)
