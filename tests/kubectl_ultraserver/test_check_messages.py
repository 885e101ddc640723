"""Tests of the exact texts of ``check``."""

from datetime import UTC, datetime
from typing import Any

import pytest

from kubectl_ultraserver.check import messages
from kubectl_ultraserver.check.line import FAIL, PASS, WARN, Line, Status
from kubectl_ultraserver.check.messages import NO_CONFIGMAP, RESULTS, line
from tests import texts
from tests.docs.tables import meanings

HOME = "ultraserver-webhook"
LOGS = "kubectl -n ultraserver-webhook logs deployment/"
DRIVER = "check that a device plugin or DRA driver with support for UltraServers runs on these nodes"
INSTALL = "install it, except if it runs with another image or outside the cluster"
BIND, CALLED = "install.md#bind-another-operator", "install.md#check-that-it-is-called"
GUARD, REQUIREMENTS = "install.md#the-guard", "install.md#requirements"
KUEUE, TABLE = "kueue.md#set-it-up", "operations.md#the-rule-table"
PROGRAM = {"name": "x", "version": "1", "deployment": "n/d", "ready": 1, "wanted": 2, "namespace": "n"}
VERSION = {"version": "v1", "oldest": "1.34", "newest": "1.37"}

CASES: list[tuple[Status, str, dict[str, Any], tuple[str, ...]]] = [
    (PASS, "kubernetes", VERSION, ("Kubernetes v1; 1.34 to 1.37 were tested",)),
    (WARN, "kubernetes", VERSION, ("Kubernetes v1; 1.34 to 1.37 were tested",
        "try the webhook on a test cluster first", REQUIREMENTS)),
    (FAIL, "old-kubernetes", VERSION, ("Kubernetes v1; 1.34 to 1.37 were tested",
        "upgrade: 1.29 has no v1 admission policies", REQUIREMENTS)),
    (PASS, "nodes", {"all": 8, "units": 2}, ("8 nodes of 2 UltraServers",)),
    (WARN, "no-ultraservers", {"types": "a, b"}, ("there is no UltraServer node",
        "add nodes of a, b; until then jobs wait", REQUIREMENTS)),
    (WARN, "nodes-without-unit", {"some": 5, "all": 8, "label": "l", "names": "a, b"},
        ("5 of 8 UltraServer nodes have no label of a working UltraServer, such as l: a, b",
        DRIVER, "claims.md")),
    (FAIL, "nodes-without-devices", {"some": 1, "all": 1, "names": "a"},
        ("1 of 1 UltraServer nodes have no devices: a", DRIVER, "claims.md")),
    (WARN, "guarantees", {"promised": 3, "label": "l", "existing": 2},
        ("teams are guaranteed 3 units of l, but the cluster has 2",
        "guarantee fewer units, or add nodes", "placement.md#guarantees")),
    (WARN, "no-mpijobs", {"kind": "k"}, ("the API server has no k",
        "install mpi-operator to run MPIJobs", REQUIREMENTS)),
    (FAIL, "operator", PROGRAM | {"kind": "k"}, ("x 1 is n/d, with 1 of 2 pods ready",
        "kubectl -n n describe pods; until a pod is ready, no pods of k are created", "kinds.md")),
    (WARN, "operator-not-found", {"name": "x", "kind": "k"},
        ("no Deployment has an image x, so no pods of k are created", INSTALL, "kinds.md")),
    (FAIL, "kueue", PROGRAM, ("x 1 is n/d, with 1 of 2 pods ready",
        "kubectl -n n describe pods; until a pod is ready, no queued job is admitted", KUEUE)),
    (WARN, "kueue-not-found", {"name": "x"}, ("no Deployment has an image x, so no queued job is admitted",
        INSTALL, KUEUE)),
    (WARN, "old-kueue", {"version": "v0.1"}, ("Kueue v0.1 was not tested; the oldest tested Kueue is 0.15",
        "upgrade it", KUEUE)),
    (PASS, "rights", {"resources": ""}, ("you may create all objects of an installation",)),
    (FAIL, "rights", {"resources": "roles, secrets"}, ("you may not create roles, secrets",
        "install as an administrator of the cluster", REQUIREMENTS)),
    (PASS, "no-namespace", {}, (f"namespace {HOME} is created by the installation",)),
    (PASS, "namespace", {"level": "baseline", "why": ""},
        (f"namespace {HOME}, PodSecurity baseline, accepts pods like the webhook's",)),
    (FAIL, "namespace", {"level": "baseline", "why": "y | z {0}"},
        (f"namespace {HOME}, PodSecurity baseline, refuses a pod like the webhook's: y | z {{0}}",
        "change the quota, limit or policy", REQUIREMENTS)),
    (FAIL, "namespace-terminating", {"level": "baseline"},
        (f"namespace {HOME}, PodSecurity baseline, is being deleted",
        "wait until it is deleted", REQUIREMENTS)),
    (PASS, "account", {"account": "a"}, ("the guard will accept the pods of a",)),
    (FAIL, "account", {"account": "a"}, ("the guard will refuse the pods of a",
        f"before you install, bind it to the ClusterRole {HOME}-operator", BIND)),
    (FAIL, "image", {"image": "r/x", "note": "", "names": "a"}, ("image r/x cannot be pulled: a",
        "push it to a registry that the nodes can pull from, and install with its name in that registry",
        "install.md#a-registry-of-your-own")),
    (FAIL, "image", {"image": "x", "note": ", y,", "names": "a"}, ("image x, y, cannot be pulled: a",
        "push it to a registry that the nodes can pull from, and install with its name in that registry",
        "install.md#a-registry-of-your-own")),
    (WARN, "deployment", {"name": "x", "ready": 1, "wanted": 2, "image": "i", "why": ": y"},
        ("x has 1 of 2 pods ready, with image i: y",
        f"kubectl -n {HOME} describe pods; {LOGS}x", "operations.md#when-the-webhook-is-down")),
    (FAIL, "no-deployment", {}, (f"there is no Deployment {HOME}/{HOME}",
        "install it", "install.md#install")),
    (WARN, "certificate", {"pod": "p", "days": 1},
        ("the certificate of p is valid for 1 days", f"{LOGS}{HOME}-certs", "operations.md#the-certificate")),
    (FAIL, "certificate-ended", {"pod": "p", "end": datetime(2026, 12, 4, tzinfo=UTC)},
        ("the certificate of p ended on 2026-12-04", f"{LOGS}{HOME}-certs", "operations.md#the-certificate")),
    (WARN, "release", {"release": "1", "own": "2"}, ("the installation is 1, this plugin is 2",
        "use the same release of both", "preview.md#in-a-cluster")),
    (WARN, "no-preview-service", {"why": "y"}, ("y",
        "jobs are placed without it; preview, why and check show less", "preview.md#in-a-cluster")),
    (FAIL, "rule-table", {"why": NO_CONFIGMAP}, (f"the ConfigMap {HOME}-rules: it does not exist",
        "correct or restore it", TABLE)),
    (FAIL, "no-replica", {}, ("no replica runs", f"kubectl -n {HOME} get pods", TABLE)),
    (FAIL, "replica-without-answer", {"pod": "p", "why": "y"}, ("p did not answer: y",
        "let API servers reach port 8443 of the pods, for example in a security group", REQUIREMENTS)),
    (FAIL, "replica-problem", {"pod": "p", "why": "y"}, ("p: y", f"{LOGS}{HOME}", TABLE)),
    (PASS, "replica-table", {"pod": "p", "table": "t", "other": ""}, ("p uses table t",)),
    (WARN, "replica-table", {"pod": "p", "table": "t", "other": "; y"}, ("p uses table t; y",
        "a change reaches the pods within two minutes: check again", TABLE)),
    (FAIL, "no-registration", {"kind": "K"}, (f"there is no K {HOME}",
        "install it; until then no job is sent to the webhook", "operations.md#restore")),
    (PASS, "ca-bundle", {"kind": "K", "names": ""}, ("K: the caBundle is valid",)),
    (FAIL, "ca-bundle", {"kind": "K", "names": "a, b"},
        ("K: the caBundle does not match the served certificate, so calls fail: a, b",
        f"{LOGS}{HOME}-certs", "certificates.md#when-something-is-wrong")),
    (PASS, "kinds-sent", {"sent": "a, b", "others": "none"},
        ("kinds sent to the webhook: a, b; not sent: none",)),
    (WARN, "kinds-sent", {"sent": "nothing", "others": "c"},
        ("kinds sent to the webhook: nothing; not sent: c",
        "to place jobs of the other kinds, set the value kinds", "kinds.md")),
    (PASS, "namespaces-left-out", {"names": "none"},
        ("namespaces whose jobs are not sent to the webhook: none",)),
    (WARN, "namespaces-left-out", {"names": "a, b"},
        ("namespaces whose jobs are not sent to the webhook: a, b",
        "kubectl label namespace NAME ultraserver-webhook.io/inject=enabled",
        "mixed-fleets.md#only-jobs-that-opt-in")),
    (PASS, "job-changed", {"namespace": "n"}, ("an MPIJob in namespace n is changed in a dry run",)),
    (WARN, "job-unchanged", {"namespace": "n", "why": "y", "remedy": "z"},
        ("an MPIJob in namespace n is not changed in a dry run: the webhook y", "z", CALLED)),
    (FAIL, "job-refused", {"namespace": "n", "why": "y"}, ("an MPIJob in namespace n is refused: y",
        f"{LOGS}{HOME}", CALLED)),
    (PASS, "placement", {"leader": "p", "why": ""}, ("p leads",)),
    (FAIL, "placement", {"leader": "p", "why": "does not run"},
        ("jobs wait for ultraserver-placement, which does not run",
        f"kubectl -n {HOME} get pods; {LOGS}ultraserver-placement", "placement.md#placement-stalled")),
    (PASS, "no-placement", {}, ("whole-job admission is not in the rule table; Kueue is installed",)),
    (WARN, "no-placement", {}, ("whole-job admission is not in the rule table",
        "install it: without it, waiting jobs may each get only a part of the nodes that they need",
        "placement.md")),
    (FAIL, "queues-without-kueue", {},
        ("a job that names a queue skips whole-job admission, and Kueue is not installed",
        "set the value kueue: false", KUEUE)),
    (WARN, "kueue-unused", {}, ("Kueue is installed, but the rule table does not let jobs wait for it",
        "set the value kueue: true", KUEUE)),
    (PASS, "kueue-level", {"level": "l", "names": "l"},
        ("the rule table uses Kueue's level l; a Topology has it",)),
    (WARN, "kueue-level", {"level": "l", "names": "k"},
        ("the rule table uses Kueue's level l; no Topology has it, only k: jobs that need it never start",
        "add it to the Topology, or set the value kueueLevel to the level of an UltraServer",
        "kueue.md#levels")),
    (PASS, "guard", {"count": 3, "names": ""}, ("3 policies are enforced",)),
    (WARN, "guard", {"count": 3, "names": "a"}, ("these policies only warn: a",
        "set the value guard to enforce", GUARD)),
    (FAIL, "guard-incomplete", {"names": "a"}, ("missing, or without a binding: a",
        "install the chart again", GUARD)),
    (FAIL, "guard-outdated", {"names": "a, b", "policies": "a b"},
        ("policies of an older release, to be deleted with their bindings: a, b",
        "kubectl delete validatingadmissionpolicybinding,validatingadmissionpolicy a b",
        "install.md#upgrade")),
    (WARN, "no-guard", {}, ("there is no guard",
        "install it, unless all users of the cluster trust each other", GUARD)),
    (FAIL, "placement-account", {},
        ("no policy limits what the account of ultraserver-placement may do to Pods",
        "install the chart, or apply the manifests, again", GUARD)),
    (FAIL, "account-refused", {"account": "a"}, ("the guard refuses the pods of a",
        f"bind it to the ClusterRole {HOME}-operator", BIND)),
    (WARN, "not-checked", {"why": ValueError("e")}, ("not checked: e",
        "check as an administrator", "kubectl.md#check")),
    (FAIL, "not-read", {"why": ValueError("e")}, ("e", "does the API server answer?", "kubectl.md#check")),
]  # fmt: skip
"""The status, the code, the facts, and the expected text, remedy and page."""


@pytest.mark.parametrize(("status", "code", "facts", "expected"), CASES)
def test_a_result_has_its_text_remedy_and_page(
    status: Status, code: str, facts: dict[str, Any], expected: tuple[str, ...]
) -> None:
    result = line(status, code, **facts)
    text, remedy, page = expected if len(expected) > 1 else (*expected, "", "")
    assert result == Line(status, code, text, remedy, page and f"docs/{page}")


def test_every_code_has_a_case() -> None:
    """Protects against a new code whose text no test compares."""
    assert {code for _, code, *_ in CASES} == set(RESULTS)


def test_the_reference_lists_exactly_the_codes_of_the_checks() -> None:
    """Protects users who look up a code in docs/reference.md."""
    assert set(meanings()["checks"]) == set(RESULTS)


def test_the_texts_that_are_facts_of_results() -> None:
    assert texts.constants(messages) == {
        "NO_CONFIGMAP": "it does not exist",
        "NO_READYZ": "it has no /readyz",
        "NO_TAG": "without a tag",
        "CLUSTER_LEVEL": "cluster default",
        "NO_REGISTRY": ", which names no registry,",
        "OLD_RELEASE": "older than 0.3",
        "other_table": "; the preview service uses {}",
        "WEBHOOK_LOGS": f"{LOGS}{HOME}",
    }
