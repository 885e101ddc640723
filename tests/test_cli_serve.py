"""``serve`` as a process over real TLS, and ``serve-preview`` over plain HTTP."""

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


def certificates(folder: Path) -> Path:
    """Returns a new pair and its authority, as ``certs dev`` makes them."""
    development.make(folder, ["localhost", "127.0.0.1"], datetime.now(UTC))
    return folder


@pytest.fixture
def ca(tmp_path: Path) -> Path:
    return certificates(tmp_path)


def refused(monkeypatch: pytest.MonkeyPatch, ca: Path, *options: str) -> str:
    """Returns what ``serve`` says when it does not start."""
    monkeypatch.setattr("logging.config.dictConfig", lambda _: None)  # pytest's own is kept
    words = ["serve", "--tls-cert", str(ca / "tls.crt"), *options]
    result = CliRunner().invoke(main, words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert isinstance(result.exception, SystemExit), result.exception
    return result.stderr


def test_serve_with_a_wrong_table_refuses_to_start_with_every_problem(
    monkeypatch: pytest.MonkeyPatch, ca: Path
) -> None:
    table = ca / "rules.yaml"
    table.write_text(EXTENDS + "valeus: {}\nrules: [{name: X}]\n")
    message = refused(monkeypatch, ca, "--tls-key", str(ca / "tls.key"), "--rules", str(table))
    assert f"error: {table}:4: valeus: unknown key 'valeus'" in message
    assert f"{table}:5: rules[0].name: must be a name of lower case letters, digits and '-', not" in message
    assert "the rule table is wrong in 2 places" in message


def test_serve_with_a_key_that_is_not_the_certificates_refuses_to_start(
    monkeypatch: pytest.MonkeyPatch, ca: Path
) -> None:
    other = certificates(ca / "other")
    assert refused(monkeypatch, ca, "--tls-key", str(other / "tls.key")).startswith("error: ")


class Server(Subject):
    """A running ``serve``, one of its options by environment."""

    def review(self) -> dict[str, Any]:
        """Returns the ``response`` of the answer to the review of a job."""
        status, text = self.asked("/mutate", body=json.dumps(review(mpijob())).encode())
        assert status == 200, text
        document: dict[str, Any] = json.loads(text)["response"]
        return document

    def counted(self, name: str) -> float:
        """Returns a counter that a scrape finds; 0 where there is none yet."""
        url = f"http://127.0.0.1:{self.metrics_port}/metrics"
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            lines = answer.read().decode().splitlines()
        return next((float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name)), 0.0)


TABLE = EXTENDS + "families: [{name: trn2u, shapes: [{name: few, workers: 4, nodeConfig: 1}]}]\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("serve"))
    (made.directory / "rules.yaml").write_text(TABLE)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("ULTRASERVER_WEBHOOK_SERVE_LOG_LEVEL", "debug")
        with made as running:
            yield running
    log = made.log()
    assert (made.process.returncode, "Traceback" in log) == (0, False), log
    assert all(isinstance(json.loads(line), dict) for line in log.splitlines())


def test_serve_answers_by_the_table_that_it_is_given(server: Server) -> None:
    assert server.review()["auditAnnotations"]["shape"] == "few"


@pytest.mark.limit(3, "the program starts another process, and ends it")
def test_previews_are_a_program_of_their_own_that_takes_no_reviews(tmp_path: Path) -> None:
    port, nothing = free_ports(2)
    (tmp_path / "rules.yaml").write_text(TABLE)
    command = [str(SERVE), "serve-preview", "--port", str(port), "--rules", str(tmp_path / "rules.yaml")]
    command += ["--fit", f"http://127.0.0.1:{nothing}"]

    def asked(path: str, body: bytes | None = None) -> int:
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
            until(lambda: asked("/readyz") == 200, "the program to be ready")
            assert asked("/v1/preview", dump_yaml(mpijob()).encode()) == 200
            assert answers[-1]["items"][0]["job"]["shape"] == "few"
            assert asked("/v1/fit", dump_yaml(mpijob()).encode()) == 503
            assert asked("/mutate", b"{}") == 404
        finally:
            program.terminate()
    assert program.returncode == 0


def test_reviews_are_counted_at_the_metrics_port(server: Server) -> None:
    name = 'ultraserver_webhook_reviews_total{endpoint="mutate",verdict="allowed"}'
    before = server.counted(name)
    assert server.review()["allowed"]
    assert server.counted(name) == before + 1


@pytest.mark.limit(4, "a worker is killed and replaced")
def test_a_worker_that_is_killed_is_replaced(server: Server) -> None:
    (killed,) = server.worker_ids()
    os.kill(killed, signal.SIGKILL)
    old = ([killed], [server.process.pid])
    until(lambda: server.worker_ids() not in old, "another worker", every=0.01)
    assert server.probe("/readyz") == 200


@pytest.mark.limit(6, "files are read once a second, by a process of low priority")
def test_a_changed_table_is_in_use(server: Server) -> None:
    rules = server.directory / "rules.yaml"
    rules.write_text(TABLE + "rules: [{name: hostfile, mode: 'off'}]\n")
    wanted = load_installed(rules, placement=False).revision
    until(lambda: json.loads(server.asked("/readyz")[1])["table"] == wanted, "the changed table in use")


def test_a_changed_pair_is_shown(server: Server) -> None:
    pair = server.files.issue()
    server.files.write(pair)
    with (
        socket.create_connection(("127.0.0.1", server.port), PATIENCE) as raw,
        server.context.wrap_socket(raw, server_hostname="localhost") as sock,
    ):
        certificate = sock.getpeercert()
    assert certificate
    assert int(str(certificate["serialNumber"]), 16) == pair.certificate.serial_number
