"""A person with kubectl, the folder of a release, and no clone."""

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


@dataclass(frozen=True)
class Person:
    """A person who installs a release.

    Attributes:
        plane: what is installed on.
        folder: the release's.
    """

    plane: RealPlane
    folder: Path

    @property
    def version(self) -> str:
        """Which version the release is of."""
        return str(json.loads((self.folder / release.ABOUT).read_text(encoding="utf-8"))["version"])

    @property
    def serves(self) -> str:
        """The image that the release's manifest has the serving Pods run."""
        text = (self.folder / "install.yaml").read_text(encoding="utf-8")
        (result,) = {*re.findall(r" image: (ultraserver-webhook:.*)", text)}
        return str(result)

    def types(self, heading: str) -> None:
        """Runs what the document shows under a heading, in the folder."""
        type_in(INSTALL, heading, self.folder, self.plane.kubectl)

    def imports_on(self, node: Node) -> None:
        """Runs on a node what the document shows for it."""
        (step,) = steps(INSTALL, IMPORT)
        path = f"PATH={self.plane.node_tools}:/usr/bin:/bin"
        node.run("env", f"--chdir={self.folder}", path, "bash", "-ec", step.command)
        assert {f"{name}:{self.version}" for name in product.TARGETS.values()} <= images_of(node)

    def imports(self) -> None:
        """The same on every node."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(self.imports_on, self.plane.nodes.values()))


def images_of(node: Node) -> set[str]:
    """Returns the images of a node, without registry and folder."""
    return {line.split()[0].rpartition("/")[2] for line in node.ctr("images", "list").splitlines()[1:]}
