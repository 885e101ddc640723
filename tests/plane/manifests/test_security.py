"""Tests of security in the chart: the containers' security contexts, network policies, and rights."""

import re

import click
import pytest

from tests.plane.manifests.conftest import Rendered
from tests.plane.manifests.objects import NAMESPACE, find_object, of_kind, pod_specs, selects, webhooks
from webhook.admission.answer import HANDLERS
from webhook.settings import serve_options

PROGRAMS = ("ultraserver-webhook", "ultraserver-webhook-certs", "ultraserver-placement")
each_program = pytest.mark.parametrize("program", PROGRAMS)


@each_program
def test_a_pod_runs_as_non_root_with_a_read_only_root_and_no_capabilities(
    program: str, defaults: Rendered
) -> None:
    spec = pod_specs(defaults)[program]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] == 65532
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in spec["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


@each_program
def test_every_mount_is_read_only_except_the_temporary_directory(program: str, defaults: Rendered) -> None:
    (container,) = pod_specs(defaults)[program]["containers"]
    writable = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
    assert writable == {"/tmp"}  # noqa: S108 - a path in a manifest


@each_program
def test_a_pod_requests_cpu_and_memory_and_limits_only_memory(program: str, defaults: Rendered) -> None:
    (container,) = pod_specs(defaults)[program]["containers"]
    assert set(container["resources"]["requests"]) == {"cpu", "memory"}
    assert set(container["resources"]["limits"]) == {"memory"}


@each_program
def test_a_pod_has_probes(program: str, defaults: Rendered) -> None:
    (container,) = pod_specs(defaults)[program]["containers"]
    ports = {port["name"] for port in container["ports"]}
    for probe in ("livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] in ports


def test_serving_pods_see_the_certificate_and_not_the_authority(defaults: Rendered) -> None:
    volumes = {volume["name"]: volume for volume in pod_specs(defaults)["ultraserver-webhook"]["volumes"]}
    assert volumes["tls"]["secret"]["secretName"] == "ultraserver-webhook-tls"
    assert {item["key"] for item in volumes["tls"]["secret"]["items"]} == {"tls.crt", "tls.key"}
    assert volumes["tls"]["secret"]["defaultMode"] & 0o007 == 0


def test_the_namespace_enforces_the_restricted_pod_security_standard(defaults: Rendered) -> None:
    labels = find_object(defaults, "Namespace", NAMESPACE)["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


def test_network_policies_deny_all_traffic_that_they_do_not_name(defaults: Rendered) -> None:
    deny = find_object(defaults, "NetworkPolicy", "default-deny")["spec"]
    assert deny == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    serving = find_object(defaults, "NetworkPolicy")["spec"]
    assert serving["ingress"] == [{"ports": [{"port": "https"}]}]
    for program in PROGRAMS[1:]:
        assert "ingress" not in find_object(defaults, "NetworkPolicy", program)["spec"]


def test_every_network_policy_disruption_budget_and_service_selects_existing_pods(defaults: Rendered) -> None:
    labels = [item["spec"]["template"]["metadata"]["labels"] for item in of_kind(defaults, "Deployment")]
    selectors = [item["spec"]["podSelector"] for item in of_kind(defaults, "NetworkPolicy")]
    selectors += [item["spec"]["selector"] for item in of_kind(defaults, "PodDisruptionBudget")]
    selectors += [{"matchLabels": item["spec"]["selector"]} for item in of_kind(defaults, "Service")]
    for selector in selectors:
        assert any(selects(selector, label) for label in labels), selector


def test_the_server_accepts_every_argument_of_its_manifest(defaults: Rendered) -> None:
    command = click.command()(serve_options(lambda: None))
    options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    (container,) = pod_specs(defaults)["ultraserver-webhook"]["containers"]
    assert {argument.split("=")[0] for argument in container["args"]} <= options


def test_every_webhook_calls_an_existing_endpoint(defaults: Rendered) -> None:
    called = {hook["clientConfig"]["service"]["path"] for hook in webhooks(defaults).values()}
    assert called <= {f"/{name}" for name in HANDLERS}
    assert {hook["clientConfig"]["service"]["namespace"] for hook in webhooks(defaults).values()} == {
        NAMESPACE
    }


def test_the_certificate_program_has_these_rights_and_no_others(defaults: Rendered) -> None:
    program, parts = "ultraserver-webhook-certs", ("apiGroups", "resources", "resourceNames", "verbs")
    granted = {
        (kind, *(" ".join(sorted(rule.get(part, ()))) for part in parts))
        for kind in ("Role", "ClusterRole")
        for rule in find_object(defaults, kind, program)["rules"]
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
        binding = find_object(defaults, f"{kind}Binding", program)
        assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) == (kind, program)
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": program, "namespace": NAMESPACE}]


def test_the_certificate_program_may_create_only_the_secrets_that_it_may_update(defaults: Rendered) -> None:
    program = "ultraserver-webhook-certs"
    (own,) = [
        set(rule["resourceNames"])
        for rule in find_object(defaults, "Role", program)["rules"]
        if rule["resources"] == ["secrets"] and "update" in rule["verbs"]
    ]
    policy = find_object(defaults, "ValidatingAdmissionPolicy", program)["spec"]
    (check,) = policy["validations"]
    assert set(re.findall(r"'(ultraserver-webhook-\w+)'", check["expression"])) == own
    (account,) = policy["matchConditions"]
    (subject,) = find_object(defaults, "RoleBinding", program)["subjects"]
    assert f"'system:serviceaccount:{subject['namespace']}:{subject['name']}'" in account["expression"]
    bound = find_object(defaults, "ValidatingAdmissionPolicyBinding", program)["spec"]
    assert bound == {"policyName": program, "validationActions": ["Deny"]}
