"""A user who installs a release, with kubectl and the folder of the release, without a clone."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from testbed.images import product
from testbed.nodes.node import Node
from testbed.nodes.plane import RealPlane
from testbed.release import release
from tests.nodes.commands import steps, type_in

INSTALL = "docs/install.md"
CHECK, IMPORT = "From a release, without a clone", "Import the images"
APPLY = "Apply a release's manifests"
"""Headings of the document."""


@dataclass(frozen=True)
class Person:
    """A user who installs a release.

    Attributes:
        plane: The cluster.
        folder: The folder of the release.
    """

    plane: RealPlane
    folder: Path

    @property
    def version(self) -> str:
        """The version of the release."""
        return str(json.loads((self.folder / release.ABOUT).read_text(encoding="utf-8"))["version"])

    @property
    def serving_image(self) -> str:
        """The image of the serving Pods in the release's manifest."""
        text = (self.folder / "install.yaml").read_text(encoding="utf-8")
        (image,) = {*re.findall(r" image: (ultraserver-webhook:.*)", text)}
        return str(image)

    def run(self, heading: str) -> None:
        """Runs the commands that the document shows under a heading, in the folder."""
        type_in(INSTALL, heading, self.folder, self.plane.kubectl)

    def import_images_on(self, node: Node) -> None:
        """Runs the document's command on a node, and checks that the node has the product's images."""
        (step,) = steps(INSTALL, IMPORT)
        path = f"PATH={self.plane.node_tools}:/usr/bin:/bin"
        node.run("env", f"--chdir={self.folder}", path, "bash", "-ec", step.command)
        assert {f"{name}:{self.version}" for name in product.TARGETS.values()} <= images_of(node)

    def import_images(self) -> None:
        """Imports the images on every node."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(self.import_images_on, self.plane.nodes.values()))


def images_of(node: Node) -> set[str]:
    """Returns the images of a node, without registry and folder."""
    return {line.split()[0].rpartition("/")[2] for line in node.ctr("images", "list").splitlines()[1:]}
