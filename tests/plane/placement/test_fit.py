"""Tests that the preview service queries the placement program, both with the arguments of the chart."""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from kube.api import Object
from testbed import chart
from testbed.experiment.stage import TEAMS, Stage
from testbed.mpijob import mpijob
from testbed.plane import placement
from testbed.plane.process import free_ports
from testbed.waiting import until

MOUNTED = "/etc/ultraserver-webhook/rules"


def arguments_of(
    objects_by_name: dict[tuple[str, str], Object], name: str, command: list[str]
) -> dict[str, str]:
    """Returns the arguments of a Deployment's container, by name."""
    (container,) = objects_by_name["Deployment", name]["spec"]["template"]["spec"]["containers"]
    assert container["command"] == command
    assert {"env", "envFrom"}.isdisjoint(container)
    pairs = (argument.removeprefix("--").partition("=") for argument in container["args"])
    return {key: value for key, _, value in pairs}


def query_fit(port: int, workers: int) -> dict[str, Any] | None:
    """Returns the preview service's answer about a job, or None if it has no answer yet."""
    url = f"http://127.0.0.1:{port}/v1/fit"
    body = json.dumps(mpijob(workers, name="asked", namespace=TEAMS[1])).encode()
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, body, {"Accept": "application/json"})
        ) as response:
            return dict(json.load(response))
    except urllib.error.HTTPError as error:
        if error.code != HTTPStatus.SERVICE_UNAVAILABLE:
            raise
    except OSError:
        pass
    return None


@pytest.mark.limit(90, "starts both programs, and waits until one decides")
@pytest.mark.usefixtures("helm")
def test_the_programs_answer_about_a_job_with_the_arguments_of_the_chart(
    stage: Stage, tmp_path: Path
) -> None:
    objects = chart.objects({"fit": True})
    objects_by_name = {(part["kind"], part["metadata"]["name"]): part for part in objects}
    for name, rows in objects_by_name["ConfigMap", "ultraserver-webhook-rules"]["data"].items():
        (tmp_path / name).write_text(rows, encoding="utf-8")
    placement_options = arguments_of(
        objects_by_name, "ultraserver-placement", ["python", "-m", "placement", "run"]
    )
    preview_options = arguments_of(
        objects_by_name, f"{chart.NAME}-preview", ["ultraserver-webhook", "serve-preview"]
    )
    # Only the addresses and the folder of the table are changed for this machine.
    service, address = objects_by_name["Service", "ultraserver-placement"], urlsplit(preview_options["fit"])
    assert address.hostname == f"{service['metadata']['name']}.{service['metadata']['namespace']}"
    assert str(address.port) == placement_options["metrics-port"] == str(service["spec"]["ports"][0]["port"])
    assert placement_options["rules"] == preview_options["rules"] == MOUNTED
    placement_port, preview_port = free_ports(2)
    options = placement_options | {"metrics-port": str(placement_port), "rules": str(tmp_path)}
    keywords = {key.replace("-", "_"): value or True for key, value in options.items()}
    placement.start(stage.plane, "placement-fit", interval_seconds=1, **keywords)
    changed = {
        "host": "127.0.0.1",
        "port": preview_port,
        "rules": tmp_path,
        "fit": f"http://127.0.0.1:{placement_port}",
    }
    arguments = [f"--{key}={value}" for key, value in (preview_options | changed).items()]
    command = [sys.executable, "-m", "webhook", "serve-preview", *arguments]
    program = stage.plane.programs.start("previews-fit", command, cwd=chart.REPOSITORY)
    try:
        answer = until(lambda: query_fit(preview_port, 8), "an answer about a job")
        assert (answer["fits"], len(answer["units"])) == (True, 2)
        key = stage.apply("busy", len(stage.usable))
        stage.wait(lambda jobs: jobs[key].whole)
        # While the program still counts the job ``busy`` as waiting, the other job is second.
        later = until(
            lambda: (now := query_fit(preview_port, 8)) and now["position"] == 1 and now,
            "an answer that the job is first",
        )
        assert not later["fits"]
        assert "busy" not in json.dumps(later), "the answer names no job of another team"
    finally:
        stage.plane.programs.stop(program)
