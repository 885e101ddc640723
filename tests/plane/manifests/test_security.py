"""What a pod may do, and what reaches it."""

import re

import click
import pytest

from tests.plane.manifests.conftest import Build
from tests.plane.manifests.objects import NAMESPACE, of_kind, one, pod_specs, selects, webhooks
from webhook.admission.answer import HANDLERS
from webhook.settings import serve_options

PROGRAMS = ("ultraserver-webhook", "ultraserver-webhook-certs", "ultraserver-placement")
each = pytest.mark.parametrize("program", PROGRAMS)


@each
def test_a_pod_runs_as_nobody_with_a_read_only_root_and_no_capabilities(program: str, base: Build) -> None:
    spec = pod_specs(base)[program]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] == 65532
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in spec["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


@each
def test_every_mount_is_read_only_but_the_temporary_directory(program: str, base: Build) -> None:
    (container,) = pod_specs(base)[program]["containers"]
    writable = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
    assert writable == {"/tmp"}  # noqa: S108 - a path in a manifest


@each
def test_resources_are_asked_for_and_memory_is_bounded_but_the_processor_is_not(
    program: str, base: Build
) -> None:
    (container,) = pod_specs(base)[program]["containers"]
    assert set(container["resources"]["requests"]) == {"cpu", "memory"}
    assert set(container["resources"]["limits"]) == {"memory"}


@each
def test_a_pod_has_probes(program: str, base: Build) -> None:
    (container,) = pod_specs(base)[program]["containers"]
    ports = {port["name"] for port in container["ports"]}
    for probe in ("livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] in ports


def test_serving_pods_see_the_certificate_and_not_the_authority(base: Build) -> None:
    volumes = {volume["name"]: volume for volume in pod_specs(base)["ultraserver-webhook"]["volumes"]}
    assert volumes["tls"]["secret"]["secretName"] == "ultraserver-webhook-tls"
    assert {item["key"] for item in volumes["tls"]["secret"]["items"]} == {"tls.crt", "tls.key"}
    assert volumes["tls"]["secret"]["defaultMode"] & 0o007 == 0


def test_the_namespace_takes_no_pod_that_is_less_strict(base: Build) -> None:
    labels = one(base, "Namespace", NAMESPACE)["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


def test_what_is_not_named_does_not_pass_the_network_policies(base: Build) -> None:
    deny = one(base, "NetworkPolicy", "default-deny")["spec"]
    assert deny == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    serving = one(base, "NetworkPolicy")["spec"]
    assert serving["ingress"] == [{"ports": [{"port": "https"}]}]
    for program in PROGRAMS[1:]:
        assert "ingress" not in one(base, "NetworkPolicy", program)["spec"]


def test_every_policy_budget_and_service_selects_pods_that_there_are(base: Build) -> None:
    labels = [item["spec"]["template"]["metadata"]["labels"] for item in of_kind(base, "Deployment")]
    selectors = [item["spec"]["podSelector"] for item in of_kind(base, "NetworkPolicy")]
    selectors += [item["spec"]["selector"] for item in of_kind(base, "PodDisruptionBudget")]
    selectors += [{"matchLabels": item["spec"]["selector"]} for item in of_kind(base, "Service")]
    for selector in selectors:
        assert any(selects(selector, label) for label in labels), selector


def test_the_server_accepts_every_argument_of_its_manifest(base: Build) -> None:
    command = click.command()(serve_options(lambda: None))
    known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    (container,) = pod_specs(base)["ultraserver-webhook"]["containers"]
    assert {argument.split("=")[0] for argument in container["args"]} <= known


def test_every_webhook_calls_an_existing_endpoint(base: Build) -> None:
    called = {hook["clientConfig"]["service"]["path"] for hook in webhooks(base).values()}
    assert called <= {f"/{name}" for name in HANDLERS}
    assert {hook["clientConfig"]["service"]["namespace"] for hook in webhooks(base).values()} == {NAMESPACE}


def test_the_certificate_program_has_these_rights_and_no_others(base: Build) -> None:
    program, parts = "ultraserver-webhook-certs", ("apiGroups", "resources", "resourceNames", "verbs")
    granted = {
        (kind, *(" ".join(sorted(rule.get(part, ()))) for part in parts))
        for kind in ("Role", "ClusterRole")
        for rule in one(base, kind, program)["rules"]
    }
    hooks = "mutatingwebhookconfigurations validatingwebhookconfigurations"
    assert granted == {
        ("Role", "", "secrets", "", "create"),
        ("Role", "", "secrets", "ultraserver-webhook-ca ultraserver-webhook-tls", "get update"),
        ("Role", "", "secrets", "ultraserver-webhook-provided", "get"),
        ("Role", "discovery.k8s.io", "endpointslices", "", "list"),
        ("ClusterRole", "admissionregistration.k8s.io", hooks, "ultraserver-webhook", "get patch"),
    }
    for kind in ("Role", "ClusterRole"):
        binding = one(base, f"{kind}Binding", program)
        assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) == (kind, program)
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": program, "namespace": NAMESPACE}]


def test_the_certificate_program_may_create_the_secrets_that_it_may_write_and_no_other(base: Build) -> None:
    program = "ultraserver-webhook-certs"
    (own,) = [
        set(rule["resourceNames"])
        for rule in one(base, "Role", program)["rules"]
        if rule["resources"] == ["secrets"] and "update" in rule["verbs"]
    ]
    policy = one(base, "ValidatingAdmissionPolicy", program)["spec"]
    (check,) = policy["validations"]
    assert set(re.findall(r"'(ultraserver-webhook-\w+)'", check["expression"])) == own
    (account,) = policy["matchConditions"]
    (subject,) = one(base, "RoleBinding", program)["subjects"]
    assert f"'system:serviceaccount:{subject['namespace']}:{subject['name']}'" in account["expression"]
    bound = one(base, "ValidatingAdmissionPolicyBinding", program)["spec"]
    assert bound == {"policyName": program, "validationActions": ["Deny"]}
