"""The certificate of an installation: what is lost or overwritten comes back, with nobody noticing."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

from tests.cluster.install.installation import MUTATING, TEAM
from tests.cluster.install.test_install import bundles
from tests.cluster.load import jobs_keep_coming
from tests.waiting import until

if TYPE_CHECKING:
    from tests.cluster.install.installation import Installation

OPERATIONS = "docs/operations.md"


def test_the_document_shows_how_the_certificate_is(installed: Installation) -> None:
    printed = installed.run(OPERATIONS, "The certificate")
    assert "notAfter=" in printed


def test_a_caBundle_that_somebody_overwrote_is_put_right(installed: Installation) -> None:  # noqa: N802
    before = bundles(installed)
    wrong = base64.b64encode(b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n").decode()
    patch = [{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": wrong}]
    done = installed.kubectl.run("patch", *MUTATING, "--type=json", "-p", json.dumps(patch), check=False)
    if done.returncode:
        # The API server refuses what is no certificate; another authority's is one.
        other = installed.control_plane.folder / "credentials" / "ca.crt"
        patch[0]["value"] = base64.b64encode(other.read_bytes()).decode()
        installed.kubectl.run("patch", *MUTATING, "--type=json", "-p", json.dumps(patch))
    until(lambda: bundles(installed) == before)
    until(installed.places)


def test_a_serving_secret_that_was_deleted_is_made_anew(installed: Installation) -> None:
    installed.own.run("delete", "secret", "ultraserver-webhook-tls")
    installed.own.wait_for(lambda _: True, "secret", "ultraserver-webhook-tls")
    until(installed.places)


def test_beginning_anew_ends_with_one_trusted_authority(installed: Installation) -> None:
    before = bundles(installed)
    installed.run(OPERATIONS, "Issue everything again")
    until(lambda: len(bundles(installed)) == 1 and bundles(installed) != before)
    until(installed.places)


def test_ten_rotations_of_authority_and_leaf_under_load_cost_no_job_its_place(
    installed: Installation,
) -> None:
    seen: set[str] = set()
    (program,) = installed.pods("certificates")
    rotate = ("python", "-m", "certs", "rotate", "--force=ca", "--force=leaf", "--wait=60")
    with jobs_keep_coming(installed.control_plane.kubeconfig, TEAM) as load:
        for _ in range(10):
            # Beside the program in that Pod, which takes part: two that do the same are no danger.
            installed.inside(program, *rotate)
            seen |= bundles(installed)
    assert len(seen) == 10
    assert len(load.admissions) > 100
    assert load.lost == []
