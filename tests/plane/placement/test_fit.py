"""The preview service asks the placement program, both with the arguments that the chart renders."""

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


def container(parts: dict[tuple[str, str], Object], name: str, command: list[str]) -> dict[str, str]:
    """Returns the arguments of a Deployment's container, by name."""
    (found,) = parts["Deployment", name]["spec"]["template"]["spec"]["containers"]
    assert found["command"] == command
    assert {"env", "envFrom"}.isdisjoint(found)
    pairs = (argument.removeprefix("--").partition("=") for argument in found["args"])
    return {key: value for key, _, value in pairs}


def asked(port: int, workers: int) -> dict[str, Any] | None:
    """Returns the answer about a job; None if there is none yet."""
    url = f"http://127.0.0.1:{port}/v1/fit"
    body = json.dumps(mpijob(workers, name="asked", namespace=TEAMS[1])).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, {"Accept": "application/json"})) as got:
            return dict(json.load(got))
    except urllib.error.HTTPError as error:
        if error.code != HTTPStatus.SERVICE_UNAVAILABLE:
            raise
    except OSError:
        pass
    return None


@pytest.mark.limit(90, "starts both programs, and waits until one decides")
@pytest.mark.usefixtures("helm")
def test_a_job_is_asked_about_with_both_programs_as_the_chart_deploys_them(
    stage: Stage, tmp_path: Path
) -> None:
    every = chart.objects({"fit": True})
    parts = {(part["kind"], part["metadata"]["name"]): part for part in every}
    for name, rows in parts["ConfigMap", "ultraserver-webhook-rules"]["data"].items():
        (tmp_path / name).write_text(rows, encoding="utf-8")
    decides = container(parts, "ultraserver-placement", ["python", "-m", "placement", "run"])
    asks = container(parts, f"{chart.NAME}-preview", ["ultraserver-webhook", "serve-preview"])
    # Only the addresses and the folder of the table are those of this machine.
    service, address = parts["Service", "ultraserver-placement"], urlsplit(asks["fit"])
    assert address.hostname == f"{service['metadata']['name']}.{service['metadata']['namespace']}"
    assert str(address.port) == decides["metrics-port"] == str(service["spec"]["ports"][0]["port"])
    assert decides["rules"] == asks["rules"] == MOUNTED
    inner, outer = free_ports(2)
    options = decides | {"metrics-port": str(inner), "rules": str(tmp_path)}
    given = {key.replace("-", "_"): value or True for key, value in options.items()}
    placement.start(stage.plane, "placement-fit", interval_seconds=1, **given)
    changed = {"host": "127.0.0.1", "port": outer, "rules": tmp_path, "fit": f"http://127.0.0.1:{inner}"}
    arguments = [f"--{key}={value}" for key, value in (asks | changed).items()]
    command = [sys.executable, "-m", "webhook", "serve-preview", *arguments]
    program = stage.plane.programs.start("previews-fit", command, cwd=chart.REPOSITORY)
    try:
        answer = until(lambda: asked(outer, 8), "an answer about a job")
        assert (answer["fits"], len(answer["units"])) == (True, 2)
        key = stage.apply("busy", len(stage.usable))
        stage.wait(lambda jobs: jobs[key].whole)
        # The program may still admit the other job, which is then the first one.
        later = until(
            lambda: (now := asked(outer, 8)) and now["position"] == 1 and now,
            "an answer that the job is first",
        )
        assert not later["fits"]
        assert "busy" not in json.dumps(later), "it names no job of others"
    finally:
        stage.plane.programs.stop(program)
