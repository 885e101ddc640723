"""The certificate of an installation: what is lost or overwritten comes back, with nobody noticing."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

from tests.cluster.install.installation import MUTATING, until
from tests.cluster.install.test_install import bundles

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
    installed.run(OPERATIONS, "Anew")
    until(lambda: len(bundles(installed)) == 1 and bundles(installed) != before)
    until(installed.places)
