"""Tests of the chart by the points of Kubernetes' *Admission Webhook Good Practices*."""

import re
from collections.abc import Callable

from contract import keys
from tests.plane.manifests.conftest import Object, Rendered
from tests.plane.manifests.objects import NAMESPACE, find_object, of_kind, pod_specs, selects, webhooks
from webhook.rules.load import load_default

SYSTEM = ("kube-system", "kube-public", "kube-node-lease")
ORDINARY = {"kubernetes.io/metadata.name": "team-a"}
CONFIGURATIONS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def mutating_webhooks(objects: Rendered) -> list[Object]:
    hooks: list[Object] = find_object(objects, "MutatingWebhookConfiguration")["webhooks"]
    return hooks


def webhooks_for_jobs(objects: Rendered) -> list[Object]:
    return [hook for name, hook in webhooks(objects).items() if not name.startswith("rule-table")]


def test_rules_name_resources_versions_and_operations_and_no_wildcard(defaults: Rendered) -> None:
    rules = {name: hook["rules"] for name, hook in webhooks(defaults).items()}
    requests = {
        name: [
            (rule["apiGroups"], rule["apiVersions"], rule["resources"], rule["operations"])
            for rule in rule_list
        ]
        for name, rule_list in rules.items()
    }
    jobs = [(["kubeflow.org"], ["v2beta1"], ["mpijobs"], ["CREATE"])]
    assert requests == {
        "mpijobs.ultraserver-webhook.io": jobs,
        "pods.ultraserver-webhook.io": [([""], ["v1"], ["pods"], ["CREATE"])],
        "launchers.ultraserver-webhook.io": [([""], ["v1"], ["pods"], ["CREATE"])],
        "updates.ultraserver-webhook.io": [(["kubeflow.org"], ["v2beta1"], ["mpijobs"], ["UPDATE"])],
        "verify.ultraserver-webhook.io": jobs,
        "rule-table.ultraserver-webhook.io": [([""], ["v1"], ["configmaps"], ["CREATE", "UPDATE"])],
    }
    assert {rule["scope"] for value in rules.values() for rule in value} == {"Namespaced"}


def test_a_namespace_is_opted_out_by_a_label(defaults: Rendered) -> None:
    for hook in webhooks_for_jobs(defaults):
        assert selects(hook["namespaceSelector"], ORDINARY)
        out = ORDINARY | {"ultraserver-webhook.io/inject": "disabled"}
        # A launcher of a job that was created before the opt-out still needs its script.
        assert selects(hook["namespaceSelector"], out) is hook["name"].startswith("launchers.")


def test_kube_system_and_the_webhooks_own_namespace_are_left_out(render: Callable[..., Rendered]) -> None:
    for objects in (render(), render(failurePolicy="Fail")):
        for hook in webhooks_for_jobs(objects):
            for name in (*SYSTEM, NAMESPACE):
                assert not selects(hook["namespaceSelector"], {"kubernetes.io/metadata.name": name})


def test_from_the_webhooks_own_namespace_only_rule_tables_are_sent_and_this_fails_open(
    render: Callable[..., Rendered],
) -> None:
    for objects in (render(), render(failurePolicy="Fail")):
        hook = webhooks(objects)["rule-table.ultraserver-webhook.io"]
        assert hook["objectSelector"] == {"matchLabels": {"ultraserver-webhook.io/rules": "true"}}
        assert hook["failurePolicy"] == "Ignore"
        assert not selects(hook["namespaceSelector"], ORDINARY)


def test_webhooks_allow_dry_runs_match_every_version_time_out_soon_and_are_reinvoked(
    defaults: Rendered,
) -> None:
    for hook in webhooks(defaults).values():
        assert (hook["matchPolicy"], hook["sideEffects"], hook["timeoutSeconds"]) == ("Equivalent", "None", 5)
    assert {hook["reinvocationPolicy"] for hook in mutating_webhooks(defaults)} == {"IfNeeded"}


def test_several_replicas_serve_behind_one_service(defaults: Rendered) -> None:
    service, deployment = find_object(defaults, "Service"), find_object(defaults, "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert selects({"matchLabels": service["spec"]["selector"]}, labels)
    certs = find_object(defaults, "Deployment", "ultraserver-webhook-certs")["spec"]["template"]["metadata"][
        "labels"
    ]
    assert not selects({"matchLabels": service["spec"]["selector"]}, certs)
    scaler = find_object(defaults, "HorizontalPodAutoscaler")["spec"]
    assert scaler["minReplicas"] >= 2
    assert "replicas" not in deployment["spec"], "each apply would undo the autoscaler's change"
    for hook in webhooks(defaults).values():
        assert hook["clientConfig"]["service"]["name"] == service["metadata"]["name"]
        assert hook["clientConfig"]["service"]["port"] == service["spec"]["ports"][0]["port"]


def test_a_drain_or_a_rollout_keeps_replicas_running(defaults: Rendered) -> None:
    assert find_object(defaults, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    assert find_object(defaults, "Deployment")["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    spec = pod_specs(defaults)["ultraserver-webhook"]
    spread = {row["topologyKey"] for row in spec["topologySpreadConstraints"]}
    assert spread == {"kubernetes.io/hostname", "topology.kubernetes.io/zone"}
    pause = spec["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert spec["terminationGracePeriodSeconds"] >= pause + 25 + 2, (
        "the server waits 25 s for running requests"
    )


def test_admission_makes_no_calls_to_the_api_server(defaults: Rendered) -> None:
    assert pod_specs(defaults)["ultraserver-webhook"]["automountServiceAccountToken"] is False
    bindings = of_kind(defaults, "RoleBinding") + of_kind(defaults, "ClusterRoleBinding")
    bound = {subject["name"] for binding in bindings for subject in binding["subjects"]}
    assert pod_specs(defaults)["ultraserver-webhook"]["serviceAccountName"] not in bound
    policy = find_object(defaults, "NetworkPolicy")["spec"]
    assert "Egress" in policy["policyTypes"]
    assert "egress" not in policy


def test_only_updates_that_can_remove_additions_from_a_job_without_pods_are_sent(defaults: Rendered) -> None:
    operations = {hook["name"]: hook["rules"][0]["operations"] for hook in mutating_webhooks(defaults)}
    (updates,) = (name for name, operation in operations.items() if operation != ["CREATE"])
    conditions = {row["name"]: row["expression"] for row in webhooks(defaults)[updates]["matchConditions"]}
    assert set(conditions) == {
        *("pods-are-still-to-come", "templates-or-size-change", "was-added-to"),
        *("not-opted-out", "not-being-deleted"),
    }
    assert f"'{keys.ADDED}'" in conditions["was-added-to"]
    assert f"'{keys.INJECT}'" in conditions["not-opted-out"]
    values = re.search(r"in \[(.*)\]", conditions["not-opted-out"])
    assert values
    assert set(values[1].replace("'", "").split(", ")) == keys.OPT_OUT_VALUES


def test_only_workers_that_can_get_a_block_are_sent(render: Callable[..., Rendered]) -> None:
    defaults, with_missed_jobs = (
        webhooks(objects)["pods.ultraserver-webhook.io"] for objects in (render(), render(missedJobs=True))
    )
    assert "place.matches('^placer=(affinity|scheduler) " in defaults["matchConditions"][-1]["expression"]
    assert "kueue.x-k8s.io/podset-" in defaults["matchConditions"][-1]["expression"]
    # The value missedJobs changes one condition, and nothing else.
    (condition,) = [
        row for row in with_missed_jobs["matchConditions"] if row not in defaults["matchConditions"]
    ]
    assert condition["name"] == "of-a-job-that-was-added-to-or-missed"
    resources = load_default().resources
    assert all(f"'{name}'" in condition["expression"] for name in resources)
    assert {key: value for key, value in with_missed_jobs.items() if key != "matchConditions"} == {
        key: value for key, value in defaults.items() if key != "matchConditions"
    }


def test_mutation_fails_open_and_verify_receives_jobs_after_their_mutation(defaults: Rendered) -> None:
    closed = {hook["name"] for hook in mutating_webhooks(defaults) if hook["failurePolicy"] != "Ignore"}
    assert closed == {"launchers.ultraserver-webhook.io"}, "without it, a launcher can only fail"
    # An earlier release refuses requests to /launcher. It would answer requests to /mutate without a patch.
    launchers = webhooks(defaults)["launchers.ultraserver-webhook.io"]
    assert launchers["clientConfig"]["service"]["path"] == "/launcher"
    verify = webhooks(defaults)["verify.ultraserver-webhook.io"]
    assert verify["clientConfig"]["service"]["path"] == "/verify"
    assert verify["rules"] == webhooks(defaults)["mpijobs.ultraserver-webhook.io"]["rules"]


def test_the_value_failure_policy_makes_the_webhooks_fail_closed(render: Callable[..., Rendered]) -> None:
    closed = render(failurePolicy="Fail")
    policies = {hook["name"].split(".")[0]: hook["failurePolicy"] for hook in mutating_webhooks(closed)}
    # While the webhook is unavailable, Kueue must be able to start the jobs that it has admitted.
    assert policies == {"mpijobs": "Fail", "pods": "Fail", "launchers": "Fail", "updates": "Ignore"}
    verify = webhooks(closed)["verify.ultraserver-webhook.io"]
    assert (verify["failurePolicy"], verify["clientConfig"]["service"]["path"]) == ("Fail", "/require")


def test_all_objects_are_in_the_webhooks_namespace_which_is_opted_out(defaults: Rendered) -> None:
    assert (
        find_object(defaults, "Namespace", NAMESPACE)["metadata"]["labels"]["ultraserver-webhook.io/inject"]
        == "disabled"
    )
    names = {
        item["metadata"]["namespace"]
        for item in defaults
        if item["kind"] not in {"Namespace", "ClusterRole", "ClusterRoleBinding", *CONFIGURATIONS}
        and not item["kind"].startswith("ValidatingAdmissionPolicy")
    }
    assert names == {NAMESPACE}


def test_only_the_certificate_program_may_change_webhook_configurations_and_only_its_own(
    defaults: Rendered,
) -> None:
    for role in of_kind(defaults, "ClusterRole") + of_kind(defaults, "Role"):
        for rule in role["rules"]:
            assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"]
            if "admissionregistration.k8s.io" in rule["apiGroups"]:
                assert role["metadata"]["name"] == "ultraserver-webhook-certs"
    cluster = find_object(defaults, "ClusterRole", "ultraserver-webhook-certs")
    for rule in cluster["rules"] + find_object(defaults, "Role", "ultraserver-webhook-certs")["rules"]:
        assert "resourceNames" in rule or rule["verbs"] in (["create"], ["list"]), rule
    assert cluster["rules"][0]["resourceNames"] == ["ultraserver-webhook"]
