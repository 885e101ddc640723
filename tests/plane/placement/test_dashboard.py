"""The dashboard: a real Prometheus that scrapes the real programs has data for every panel."""

import contextlib
import json
import math
import ssl
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.experiment.judge import all_whole
from testbed.experiment.stage import Stage
from testbed.mpijob import mpijob
from testbed.plane import webhook
from testbed.plane.process import free_ports
from testbed.waiting import PATIENCE, NotYetError, until
from tests.admission.reviews import review
from tests.certs.installation import install
from tests.docs.blocks import REPOSITORY

DASHBOARD = REPOSITORY / "manifests" / "dashboard.json"


@contextlib.contextmanager
def started(stage: Stage, name: str, command: list[str], folder: Path = REPOSITORY) -> Iterator[None]:
    """Yields a program runs."""
    program = stage.plane.programs.start(name, command, cwd=folder)
    try:
        yield
    finally:
        stage.plane.programs.stop(program)


def prometheus(folder: Path, port: int, targets: list[int]) -> list[str]:
    """Returns the command of a Prometheus that scrapes these ports of this machine each second."""
    static = {"targets": [f"127.0.0.1:{target}" for target in targets]}
    scrape = {"job_name": "programs", "scrape_interval": "1s", "static_configs": [static]}
    (folder / "prometheus.json").write_text(json.dumps({"scrape_configs": [scrape]}), encoding="utf-8")
    options = {"config.file": "prometheus.json", "storage.tsdb.path": "data"}
    options["web.listen-address"] = f"127.0.0.1:{port}"
    return ["prometheus", *(f"--{key}={value}" for key, value in options.items())]


def values(port: int, query: str) -> list[float]:
    """Returns the values of a query that are numbers; none while Prometheus does not answer."""
    try:
        requests = urllib.parse.urlencode({"query": query})
        with urllib.request.urlopen(
            f"http://127.0.0.1:{port}/api/v1/query?{requests}", timeout=1
        ) as response:
            result = json.load(response)["data"]["result"]
    except OSError:
        return []
    numbers = [float(each["value"][1]) for each in result]
    return [number for number in numbers if math.isfinite(number)]


def ask(running: webhook.RunningWebhook) -> None:
    """Has the webhook answer a review of a new MPIJob."""
    body, headers = json.dumps(review(mpijob(4))).encode(), {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{running.url}/mutate", body, headers)  # noqa: S310 - on loopback
    context = ssl.create_default_context(cafile=str(running.ca))
    with urllib.request.urlopen(request, timeout=PATIENCE, context=context) as response:  # noqa: S310 - as above
        assert response.status == 200


@pytest.mark.program("prometheus")
@pytest.mark.limit(60, "starts four programs, and waits for three scrapes")
def test_prometheus_has_data_for_every_panel(stage: Stage, tmp_path: Path) -> None:
    of_webhook, of_placement, of_certs, port = free_ports(4)
    stage.start_program(metrics_port=of_placement, interval_seconds=0.5)
    stage.apply("train", 4)
    stage.wait(all_whole)
    plane, metrics = stage.plane, f"--metrics-port={of_webhook}"
    running = webhook.start(plane.programs, tmp_path / "webhook", name="measured", options=[metrics])
    own = install(plane, "dashboard", tmp_path)
    certs = own.command("run", metrics_host="127.0.0.1", metrics_port=of_certs)
    scraping = prometheus(tmp_path, port, [of_webhook, of_placement, of_certs])
    queries = {
        (panel["title"], target["expr"])
        for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
        for target in panel.get("targets", ())
    }
    assert len(queries) > 20

    def complete() -> bool:
        # A counter that rises before the first scrape has not risen for Prometheus.
        ask(running)
        empty.intersection_update({each for each in empty if not values(port, each[1])})
        return not empty

    empty = set(queries)
    with started(stage, "certs", certs), started(stage, "prometheus", scraping, tmp_path):
        try:
            until(complete, "data for every panel")
        except NotYetError as error:
            raise AssertionError(f"no data for {sorted(empty)}") from error
    plane.programs.stop(running.program)
