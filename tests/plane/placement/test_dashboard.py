"""Tests that a real Prometheus that scrapes the real programs has data for every panel of the dashboard."""

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
def running_program(stage: Stage, name: str, command: list[str], folder: Path = REPOSITORY) -> Iterator[None]:
    """Starts a program, and stops it at the end."""
    program = stage.plane.programs.start(name, command, cwd=folder)
    try:
        yield
    finally:
        stage.plane.programs.stop(program)


def prometheus_command(folder: Path, port: int, targets: list[int]) -> list[str]:
    """Returns the command of a Prometheus that scrapes these ports of this machine each second."""
    static = {"targets": [f"127.0.0.1:{target}" for target in targets]}
    scrape = {"job_name": "programs", "scrape_interval": "1s", "static_configs": [static]}
    (folder / "prometheus.json").write_text(json.dumps({"scrape_configs": [scrape]}), encoding="utf-8")
    options = {"config.file": "prometheus.json", "storage.tsdb.path": "data"}
    options["web.listen-address"] = f"127.0.0.1:{port}"
    return ["prometheus", *(f"--{key}={value}" for key, value in options.items())]


def values(port: int, query: str) -> list[float]:
    """Returns the finite values of a query; none while Prometheus does not answer."""
    try:
        parameters = urllib.parse.urlencode({"query": query})
        with urllib.request.urlopen(
            f"http://127.0.0.1:{port}/api/v1/query?{parameters}", timeout=1
        ) as response:
            result = json.load(response)["data"]["result"]
    except OSError:
        return []
    numbers = [float(sample["value"][1]) for sample in result]
    return [number for number in numbers if math.isfinite(number)]


def send_review(running: webhook.RunningWebhook) -> None:
    """Sends the webhook a review of a new MPIJob."""
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
    installation = install(plane, "dashboard", tmp_path)
    certs = installation.command("run", metrics_host="127.0.0.1", metrics_port=of_certs)
    scraping_command = prometheus_command(tmp_path, port, [of_webhook, of_placement, of_certs])
    queries = {
        (panel["title"], target["expr"])
        for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
        for target in panel.get("targets", ())
    }
    assert len(queries) > 20

    def has_data() -> bool:
        # Prometheus does not see that a counter rose before the first scrape, so each try sends a review.
        send_review(running)
        without_data.intersection_update({query for query in without_data if not values(port, query[1])})
        return not without_data

    without_data = set(queries)
    with (
        running_program(stage, "certs", certs),
        running_program(stage, "prometheus", scraping_command, tmp_path),
    ):
        try:
            until(has_data, "data for every panel")
        except NotYetError as error:
            raise AssertionError(f"no data for {sorted(without_data)}") from error
    plane.programs.stop(running.program)
