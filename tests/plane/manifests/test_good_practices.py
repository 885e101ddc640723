"""Kubernetes' *Admission Webhook Good Practices*, point by point."""

import re
from collections.abc import Callable

from contract import keys
from tests.plane.manifests.conftest import Build, Object
from tests.plane.manifests.objects import NAMESPACE, of_kind, one, pod_specs, selects, webhooks
from webhook.rules.load import load_default

SYSTEM = ("kube-system", "kube-public", "kube-node-lease")
ORDINARY = {"kubernetes.io/metadata.name": "team-a"}
CONFIGURATIONS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def mutating(objects: Build) -> list[Object]:
    hooks: list[Object] = one(objects, "MutatingWebhookConfiguration")["webhooks"]
    return hooks


def about_jobs(objects: Build) -> list[Object]:
    return [hook for name, hook in webhooks(objects).items() if not name.startswith("rule-table")]


def test_rules_name_resources_versions_and_operations_and_no_wildcard(base: Build) -> None:
    rules = {name: hook["rules"] for name, hook in webhooks(base).items()}
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


def test_a_namespace_is_opted_out_by_a_label(base: Build) -> None:
    for hook in about_jobs(base):
        assert selects(hook["namespaceSelector"], ORDINARY)
        out = ORDINARY | {"ultraserver-webhook.io/inject": "disabled"}
        # A launcher of a job that was admitted before still needs its script.
        assert selects(hook["namespaceSelector"], out) is hook["name"].startswith("launchers.")


def test_kube_system_and_the_webhooks_own_namespace_are_left_out(built: Callable[..., Build]) -> None:
    for objects in (built(), built(failurePolicy="Fail")):
        for hook in about_jobs(objects):
            for name in (*SYSTEM, NAMESPACE):
                assert not selects(hook["namespaceSelector"], {"kubernetes.io/metadata.name": name})


def test_the_webhooks_own_namespace_is_asked_about_for_rule_tables_only_and_fails_open(
    built: Callable[..., Build],
) -> None:
    for objects in (built(), built(failurePolicy="Fail")):
        hook = webhooks(objects)["rule-table.ultraserver-webhook.io"]
        assert hook["objectSelector"] == {"matchLabels": {"ultraserver-webhook.io/rules": "true"}}
        assert hook["failurePolicy"] == "Ignore"
        assert not selects(hook["namespaceSelector"], ORDINARY)


def test_a_webhook_answers_dry_runs_and_every_version_soon_and_again_after_others(base: Build) -> None:
    for hook in webhooks(base).values():
        assert (hook["matchPolicy"], hook["sideEffects"], hook["timeoutSeconds"]) == ("Equivalent", "None", 5)
    assert {hook["reinvocationPolicy"] for hook in mutating(base)} == {"IfNeeded"}


def test_several_replicas_serve_behind_one_service(base: Build) -> None:
    service, deployment = one(base, "Service"), one(base, "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert selects({"matchLabels": service["spec"]["selector"]}, labels)
    certs = one(base, "Deployment", "ultraserver-webhook-certs")["spec"]["template"]["metadata"]["labels"]
    assert not selects({"matchLabels": service["spec"]["selector"]}, certs)
    scaler = one(base, "HorizontalPodAutoscaler")["spec"]
    assert scaler["minReplicas"] >= 2
    assert "replicas" not in deployment["spec"], "it would be set back with every apply"
    for hook in webhooks(base).values():
        assert hook["clientConfig"]["service"]["name"] == service["metadata"]["name"]
        assert hook["clientConfig"]["service"]["port"] == service["spec"]["ports"][0]["port"]


def test_a_drain_or_a_rollout_leaves_replicas_standing(base: Build) -> None:
    assert one(base, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    assert one(base, "Deployment")["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    spec = pod_specs(base)["ultraserver-webhook"]
    spread = {row["topologyKey"] for row in spec["topologySpreadConstraints"]}
    assert spread == {"kubernetes.io/hostname", "topology.kubernetes.io/zone"}
    pause = spec["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert spec["terminationGracePeriodSeconds"] >= pause + 25 + 2, "25 s are the server's own patience"


def test_admission_makes_no_calls_to_the_api_server(base: Build) -> None:
    assert pod_specs(base)["ultraserver-webhook"]["automountServiceAccountToken"] is False
    bindings = of_kind(base, "RoleBinding") + of_kind(base, "ClusterRoleBinding")
    bound = {subject["name"] for binding in bindings for subject in binding["subjects"]}
    assert pod_specs(base)["ultraserver-webhook"]["serviceAccountName"] not in bound
    policy = one(base, "NetworkPolicy")["spec"]
    assert "Egress" in policy["policyTypes"]
    assert "egress" not in policy


def test_of_updates_only_those_are_sent_that_can_take_something_from_a_job_to_come(base: Build) -> None:
    operations = {hook["name"]: hook["rules"][0]["operations"] for hook in mutating(base)}
    (updates,) = (name for name, operation in operations.items() if operation != ["CREATE"])
    conditions = {row["name"]: row["expression"] for row in webhooks(base)[updates]["matchConditions"]}
    assert set(conditions) == {
        *("pods-are-still-to-come", "templates-or-size-change", "was-added-to"),
        *("not-opted-out", "not-being-deleted"),
    }
    assert f"'{keys.ADDED}'" in conditions["was-added-to"]
    assert f"'{keys.INJECT}'" in conditions["not-opted-out"]
    off = re.search(r"in \[(.*)\]", conditions["not-opted-out"])
    assert off
    assert set(off[1].replace("'", "").split(", ")) == keys.OPT_OUT_VALUES


def test_of_workers_only_those_are_sent_that_can_get_a_block(built: Callable[..., Build]) -> None:
    base, missed = (
        webhooks(objects)["pods.ultraserver-webhook.io"] for objects in (built(), built(missedJobs=True))
    )
    assert "place.matches('^placer=(affinity|scheduler) " in base["matchConditions"][-1]["expression"]
    assert "kueue.x-k8s.io/podset-" in base["matchConditions"][-1]["expression"]
    # The value sends more, by one condition, and changes nothing else.
    (more,) = [row for row in missed["matchConditions"] if row not in base["matchConditions"]]
    assert more["name"] == "of-a-job-that-was-added-to-or-missed"
    resources = load_default().resources
    assert all(f"'{name}'" in more["expression"] for name in resources)
    assert {key: value for key, value in missed.items() if key != "matchConditions"} == {
        key: value for key, value in base.items() if key != "matchConditions"
    }


def test_mutation_fails_open_and_validation_looks_at_the_end_state(base: Build) -> None:
    closed = {hook["name"] for hook in mutating(base) if hook["failurePolicy"] != "Ignore"}
    assert closed == {"launchers.ultraserver-webhook.io"}, "only what could only fail without it"
    # An earlier release refuses this path; on the other it would answer that nothing is to be done.
    launchers = webhooks(base)["launchers.ultraserver-webhook.io"]
    assert launchers["clientConfig"]["service"]["path"] == "/launcher"
    verify = webhooks(base)["verify.ultraserver-webhook.io"]
    assert verify["clientConfig"]["service"]["path"] == "/verify"
    assert verify["rules"] == webhooks(base)["mpijobs.ultraserver-webhook.io"]["rules"]


def test_failing_closed_is_a_value_of_its_own(built: Callable[..., Build]) -> None:
    closed = built(failurePolicy="Fail")
    policies = {hook["name"].split(".")[0]: hook["failurePolicy"] for hook in mutating(closed)}
    # While the webhook is unavailable, Kueue has to be able to start what it has admitted.
    assert policies == {"mpijobs": "Fail", "pods": "Fail", "launchers": "Fail", "updates": "Ignore"}
    verify = webhooks(closed)["verify.ultraserver-webhook.io"]
    assert (verify["failurePolicy"], verify["clientConfig"]["service"]["path"]) == ("Fail", "/require")


def test_it_does_not_trigger_itself(base: Build) -> None:
    assert (
        one(base, "Namespace", NAMESPACE)["metadata"]["labels"]["ultraserver-webhook.io/inject"] == "disabled"
    )
    names = {
        item["metadata"]["namespace"]
        for item in base
        if item["kind"] not in {"Namespace", "ClusterRole", "ClusterRoleBinding", *CONFIGURATIONS}
        and not item["kind"].startswith("ValidatingAdmissionPolicy")
    }
    assert names == {NAMESPACE}


def test_the_account_that_changes_the_registration_may_change_only_that(base: Build) -> None:
    for role in of_kind(base, "ClusterRole") + of_kind(base, "Role"):
        for rule in role["rules"]:
            assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"]
            if "admissionregistration.k8s.io" in rule["apiGroups"]:
                assert role["metadata"]["name"] == "ultraserver-webhook-certs"
    cluster = one(base, "ClusterRole", "ultraserver-webhook-certs")
    for rule in cluster["rules"] + one(base, "Role", "ultraserver-webhook-certs")["rules"]:
        assert "resourceNames" in rule or rule["verbs"] in (["create"], ["list"]), rule
    assert cluster["rules"][0]["resourceNames"] == ["ultraserver-webhook"]
