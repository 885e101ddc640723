"""Tests of the commands that use a cluster (output, exit codes, options), with an API server in memory."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result
from cryptography import x509

from certs import objects
from certs.__main__ import main
from certs.authority import BACKDATE, issue, new_authority
from certs.objects import file_of
from kube import client
from tests.certs.fake import (
    CA_SECRET,
    NAMESPACE,
    PROVIDED_SECRET,
    SECRET,
    TARGET,
    Clock,
    FakeApi,
    configuration,
    create_api,
    files,
)

OPTIONS = [
    *("--namespace", NAMESPACE, "--service", TARGET.service),
    *("--secret", TARGET.secret, "--ca-secret", TARGET.authority_secret),
    *("--provided-secret", TARGET.provided_secret),
    *("--mutating", "m", "--validating", "v"),
]
MUTATING = objects.webhook_configuration_path("mutating", "m")


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    fake_api = create_api()
    monkeypatch.setattr(client, "connect", lambda _: fake_api)
    return fake_api


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Returns the program's clock, which moves forward when the program sleeps."""
    fake_clock = Clock()

    class FakeDatetime(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            assert tz is UTC
            return fake_clock()

    fake_time = SimpleNamespace(
        monotonic=lambda: fake_clock().timestamp(),
        sleep=lambda span: fake_clock.forward(timedelta(seconds=span)),
    )
    monkeypatch.setattr("certs.options.datetime", FakeDatetime)
    monkeypatch.setattr("certs.__main__.datetime", FakeDatetime)
    monkeypatch.setattr("certs.__main__.time", fake_time)
    return fake_clock


def certs(*words: str) -> Result:
    return CliRunner().invoke(main, [words[0], *OPTIONS, *words[1:]])


def test_issue_prints_each_step_with_its_reason_until_nothing_is_left_to_do(api: FakeApi) -> None:
    del api.objects[MUTATING]
    assert certs("issue").output.splitlines() == [
        "new authority: no authority can sign: the Secret does not exist",
        "patch caBundle: the caBundle is stale in validating v",
        "issue leaf: no leaf to serve: the Secret does not exist",
        "keep: nothing to do",
        "note: there is no webhook configuration mutating m yet",
    ]
    assert certs("issue").output.startswith("keep: nothing to do")
    api.put(MUTATING, configuration("mutating", "m"))
    assert certs("issue").output.startswith("patch caBundle: the caBundle is stale in mutating m\nkeep")
    assert api.writes == ["POST ca", "PATCH v", "POST tls", "PATCH m"]


def test_rotate_replaces_only_the_certificate_that_force_names(api: FakeApi) -> None:
    certs("issue")
    before = api.objects[SECRET]["data"]["tls.crt"]
    assert certs("rotate").output == "keep: nothing to do\n"
    assert certs("rotate", "--force", "leaf").output.startswith("issue leaf: a new leaf was requested\n")
    assert api.objects[SECRET]["data"]["tls.crt"] != before
    result = certs("rotate", "--force", "ca")
    assert result.exit_code == 0
    assert result.output.splitlines()[-1] == "wait: some API servers may not trust the new authority yet"


@pytest.mark.usefixtures("api")
def test_rotate_waits_for_the_end_of_the_rotation_and_fails_after_the_maximum_wait(clock: Clock) -> None:
    certs("issue")
    before = clock()
    finished = certs("rotate", "--force", "ca", "--wait", "30", "--settle-seconds", "5")
    assert finished.exit_code == 0, finished.output
    assert finished.output.splitlines()[-1] == "keep: nothing to do"
    assert timedelta(seconds=10) <= clock() - before <= timedelta(seconds=12)
    before = clock()
    timed_out = certs("rotate", "--force", "ca", "--wait", "5")
    assert timed_out.exit_code == 1
    assert "not complete after 5 s" in timed_out.output
    assert clock() - before == timedelta(seconds=5)


def test_status_exits_with_0_when_all_is_well_and_1_when_calls_fail(api: FakeApi) -> None:
    without_secrets = certs("status")
    assert without_secrets.exit_code == 1
    assert "wrong: no authority can sign: the Secret does not exist" in without_secrets.output
    certs("issue")
    after_issue = certs("status")
    assert after_issue.exit_code == 0
    lines = after_issue.output.splitlines()
    assert [line.split()[0] for line in lines] == [
        *("source", "authority", "leaf", "mutating", "validating", "next")
    ]
    assert "90 days left" in lines[2] or "89 days left" in lines[2]
    assert lines[3] == "mutating   m has the bundle"
    assert lines[5].startswith("next       nothing until ")
    api.put(MUTATING, configuration("mutating", "m"))
    stale_bundle = certs("status")
    assert stale_bundle.exit_code == 1
    assert "m has another caBundle" in stale_bundle.output
    assert (
        "wrong: the caBundle of the mutating webhook configuration m lacks the leaf's authority"
        in stale_bundle.output
    )
    assert "next       patch caBundle" in stale_bundle.output
    del api.objects[MUTATING]
    assert "wrong: there is no webhook configuration mutating m" in certs("status").output


@pytest.mark.usefixtures("api")
def test_status_during_a_rotation_exits_with_0_and_names_the_reason_to_wait() -> None:
    certs("issue")
    certs("rotate", "--force", "ca")
    status = certs("status")
    assert status.exit_code == 0
    assert "bundle     1 older authority also trusted" in status.output
    assert "next       wait: some API servers may not trust" in status.output


@pytest.mark.usefixtures("api")
def test_status_reports_a_name_that_the_leaf_lacks() -> None:
    certs("issue")
    assert "wrong: the leaf lacks the name ::1" in certs("status", "--name", "::1").output


def test_status_reports_the_issuer_and_force_is_refused_for_a_provided_certificate(
    api: FakeApi, clock: Clock
) -> None:
    certs("issue")
    assert certs("status").output.startswith("source     this program\n")
    signer = new_authority(clock(), timedelta(days=9))
    pair = issue(signer, clock(), timedelta(days=5), ["webhook.hooks.svc"])
    data = files(pair.certificate_pem(), pair.key_pem(), signer.certificate_pem())
    api.put(PROVIDED_SECRET, {"metadata": {"name": "provided"}, "data": data})
    assert certs("rotate", "--wait", "30", "--settle-seconds", "5").exit_code == 0
    report = certs("status").output
    assert report.startswith("source     the provided certificate\n")
    assert "renewed from" not in next(line for line in report.splitlines() if line.startswith("leaf"))
    refused = certs("rotate", "--force", "leaf")
    assert refused.exit_code == 1
    assert "the certificate comes from the Secret provided: replace it there" in refused.output
    api.objects[PROVIDED_SECRET]["data"]["ca.crt"] = ""
    status = certs("status")
    assert status.exit_code == 1
    assert "wrong: the provided certificate is not served: its ca.crt is missing" in status.output
    assert "note: the provided certificate is not served" in certs("issue").output


def test_a_refused_request_is_an_error_line_and_an_exit_code(api: FakeApi) -> None:
    api.refuse = CA_SECRET
    assert certs("status").exit_code == 2
    for command in ("issue", "rotate"):
        failed = certs(command)
        assert failed.exit_code == 1
        assert "Error: GET" in failed.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--ca-secret", TARGET.secret), "must differ"),
        (("--leaf-days", "2000"), "cannot outlive its authority"),
        (("--leaf-days", "0.01"), "twelve settling times"),
    ],
)
def test_options_that_contradict_each_other_are_refused(words: tuple[str, ...], message: str) -> None:
    refused = certs("issue", *words)
    assert refused.exit_code == 2
    assert message in refused.output


def test_every_option_can_come_from_the_environment(api: FakeApi) -> None:
    environment = {
        "ULTRASERVER_CERTS_NAMESPACE": NAMESPACE,
        "ULTRASERVER_CERTS_SECRET": "tls",
        "ULTRASERVER_CERTS_CA_SECRET": "ca",
        "ULTRASERVER_CERTS_VALIDATING": "v w",
        "ULTRASERVER_CERTS_SERVICE": "hook",
        "ULTRASERVER_CERTS_CLUSTER_DOMAIN": "corp.local",
        "ULTRASERVER_CERTS_NAME": "10.0.0.1 example.org hook",
        "ULTRASERVER_CERTS_LEAF_DAYS": "2",
    }
    result = CliRunner().invoke(main, ["issue"], env=environment)
    assert "no webhook configuration validating w yet" in result.output
    leaf = x509.load_pem_x509_certificate(file_of(api.objects[SECRET], "tls.crt"))
    assert leaf.not_valid_after_utc - leaf.not_valid_before_utc == BACKDATE + timedelta(days=2)
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    domains = [f"hook.{NAMESPACE}.svc", f"hook.{NAMESPACE}.svc.corp.local", f"hook.{NAMESPACE}", "hook"]
    assert names.get_values_for_type(x509.DNSName) == [*domains, "example.org"]
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.1"]


@pytest.mark.usefixtures("api")
def test_an_expired_leaf_is_reported(clock: Clock) -> None:
    certs("issue")
    clock.forward(timedelta(days=100))
    status = certs("status")
    assert "(expired)" in status.output
    assert "wrong: no leaf to serve: it is only valid from" in status.output
