"""Two real nodes of one UltraServer, with none of the product's images, for the tests of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.images import product
from testbed.nodes import story
from testbed.nodes.plane import RealPlane


@pytest.fixture(scope="package")
def bare(
    node_tools: Path, product_images: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealPlane]:
    """The plane, without an installation."""
    assert (product_images, node_tools.is_dir()) == (None, True)
    folder = tmp_path_factory.mktemp("release")
    (job,) = (path for path in product.archives() if path.stem == "job")
    with story.plane(folder, [job], count=2) as (plane, _):
        story.wait_for_all_devices(plane.kubectl, plane.nodes)
        yield plane
