"""Tests of ``serve`` as a process with TLS, and of ``serve-preview`` with plain HTTP."""

import json
import os
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from certs import development
from testbed.mpijob import mpijob
from testbed.plane.process import free_ports
from testbed.waiting import PATIENCE, until
from tests.admission.reviews import review
from tests.attack.subject import SERVE, Subject
from tests.rules.tables import EXTENDS
from webhook.cli import main
from webhook.documents import dump_yaml
from webhook.rules.load import load_installed


def issue_certificates(folder: Path) -> Path:
    """Writes a new certificate, key and authority into a folder, as ``certs dev`` does."""
    development.make(folder, ["localhost", "127.0.0.1"], datetime.now(UTC))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return issue_certificates(tmp_path)


def startup_error(monkeypatch: pytest.MonkeyPatch, folder: Path, *options: str) -> str:
    """Returns the error of ``serve``, which must not start."""
    monkeypatch.setattr(
        "logging.config.dictConfig", lambda _: None
    )  # keeps pytest's configuration of logging
    words = ["serve", "--tls-cert", str(folder / "tls.crt"), *options]
    result = CliRunner().invoke(main, words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert isinstance(result.exception, SystemExit), result.exception
    return result.stderr


def test_serve_does_not_start_with_an_invalid_table_and_prints_every_problem(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    table = folder / "rules.yaml"
    table.write_text(EXTENDS + "valeus: {}\nrules: [{name: X}]\n")
    message = startup_error(monkeypatch, folder, "--tls-key", str(folder / "tls.key"), "--rules", str(table))
    assert f"error: {table}:4: valeus: unknown key 'valeus'" in message
    assert f"{table}:5: rules[0].name: must be a name of lower case letters, digits and '-', not" in message
    assert "the rule table is wrong in 2 places" in message


def test_serve_does_not_start_with_the_key_of_another_certificate(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    other = issue_certificates(folder / "other")
    assert startup_error(monkeypatch, folder, "--tls-key", str(other / "tls.key")).startswith("error: ")


class Server(Subject):
    """A ``serve`` process, with requests for a review and for metrics."""

    def review(self) -> dict[str, Any]:
        """Returns the ``response`` of the answer to the review of a job."""
        status, text = self.request("/mutate", body=json.dumps(review(mpijob())).encode())
        assert status == 200, text
        document: dict[str, Any] = json.loads(text)["response"]
        return document

    def counter(self, name: str) -> float:
        """Returns the value of a counter; 0 if the metrics do not have it yet."""
        url = f"http://127.0.0.1:{self.metrics_port}/metrics"
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            lines = answer.read().decode().splitlines()
        return next((float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name)), 0.0)


TABLE = EXTENDS + "families: [{name: trn2u, shapes: [{name: few, workers: 4, nodeConfig: 1}]}]\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    process = Server(tmp_path_factory.mktemp("serve"))
    (process.directory / "rules.yaml").write_text(TABLE)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("ULTRASERVER_WEBHOOK_SERVE_LOG_LEVEL", "debug")
        with process as running:
            yield running
    log = process.log()
    assert (process.process.returncode, "Traceback" in log) == (0, False), log
    assert all(isinstance(json.loads(line), dict) for line in log.splitlines())


def test_serve_uses_the_given_table(server: Server) -> None:
    assert server.review()["auditAnnotations"]["shape"] == "few"


@pytest.mark.limit(3, "the program starts another process, and ends it")
def test_serve_preview_answers_previews_and_no_reviews(tmp_path: Path) -> None:
    port, closed_port = free_ports(2)
    (tmp_path / "rules.yaml").write_text(TABLE)
    command = [str(SERVE), "serve-preview", "--port", str(port), "--rules", str(tmp_path / "rules.yaml")]
    command += ["--fit", f"http://127.0.0.1:{closed_port}"]

    def status_of(path: str, body: bytes | None = None) -> int:
        url = f"http://127.0.0.1:{port}{path}"
        try:
            with urllib.request.urlopen(url, body, PATIENCE) as answer:
                answers.append(json.load(answer))
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code
        except OSError:
            return 0

    answers: list[Any] = []
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as program:
        try:
            until(lambda: status_of("/readyz") == 200, "the program to be ready")
            assert status_of("/v1/preview", dump_yaml(mpijob()).encode()) == 200
            assert answers[-1]["items"][0]["job"]["shape"] == "few"
            assert status_of("/v1/fit", dump_yaml(mpijob()).encode()) == 503
            assert status_of("/mutate", b"{}") == 404
        finally:
            program.terminate()
    assert program.returncode == 0


def test_reviews_are_counted_at_the_metrics_port(server: Server) -> None:
    name = 'ultraserver_webhook_reviews_total{endpoint="mutate",response="allowed"}'
    before = server.counter(name)
    assert server.review()["allowed"]
    assert server.counter(name) == before + 1


@pytest.mark.limit(4, "a worker is killed and replaced")
def test_a_worker_that_is_killed_is_replaced(server: Server) -> None:
    (worker,) = server.worker_ids()
    os.kill(worker, signal.SIGKILL)
    old = ([worker], [server.process.pid])
    until(lambda: server.worker_ids() not in old, "another worker", every=0.01)
    assert server.probe("/readyz") == 200


@pytest.mark.limit(6, "files are read once a second, by a process of low priority")
def test_a_changed_table_is_in_use(server: Server) -> None:
    rules = server.directory / "rules.yaml"
    rules.write_text(TABLE + "rules: [{name: hostfile, mode: 'off'}]\n")
    revision = load_installed(rules, placement=False).revision
    until(lambda: json.loads(server.request("/readyz")[1])["table"] == revision, "the changed table in use")


def test_a_changed_certificate_is_served(server: Server) -> None:
    pair = server.files.issue()
    server.files.write(pair)
    with (
        socket.create_connection(("127.0.0.1", server.port), PATIENCE) as raw,
        server.context.wrap_socket(raw, server_hostname="localhost") as sock,
    ):
        certificate = sock.getpeercert()
    assert certificate
    assert int(str(certificate["serialNumber"]), 16) == pair.certificate.serial_number
