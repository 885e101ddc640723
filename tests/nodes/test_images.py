"""Tests that the product's images are small and contain only the files that they need."""

import re
from pathlib import PurePath

import pytest

from testbed.images import product
from testbed.images.archives import Image

INSTALL_FOLDER = "opt/ultraserver-webhook/"
SERVING_LIMIT = 48_000_000
"""Maximum number of bytes that the serving image adds to its base image."""
CONTROLLERS_LIMIT = 130_000_000
COMPILERS = re.compile(r"^(gcc|g\+\+|cc|c\+\+|clang|ld|as|make|cc1)(-[0-9.]+)?$")


@pytest.fixture(scope="module")
def base(image_archives: dict[str, Image]) -> Image:
    return image_archives["base"]


@pytest.fixture(params=list(product.TARGETS))
def image(request: pytest.FixtureRequest, image_archives: dict[str, Image]) -> Image:
    return image_archives[request.param]


def files_above_base(image: Image, base: Image) -> dict[str, int]:
    """Returns the sizes of the files in the layers above the base image, by path."""
    return {path: size for layer in image.above(base) for path, size in layer.files.items()}


@pytest.mark.parametrize(
    ("target", "limit"), [("serving", SERVING_LIMIT), ("controllers", CONTROLLERS_LIMIT)]
)
def test_an_image_is_little_larger_than_its_base_image(
    target: str, limit: int, image_archives: dict[str, Image], base: Image
) -> None:
    files = files_above_base(image_archives[target], base)
    # A file in two layers is stored and pulled twice.
    size = sum(sum(layer.files.values()) for layer in image_archives[target].above(base))
    largest = sorted(files.items(), key=lambda item: -item[1])[:20]
    assert size < limit, f"{size / 1e6:.1f} MB; the largest: {largest}"


def test_only_the_image_of_the_controllers_has_the_kubernetes_client(
    image_archives: dict[str, Image],
) -> None:
    has_client = {
        target: any("/site-packages/kubernetes/" in path for path in image_archives[target].files())
        for target in product.TARGETS
    }
    assert has_client == {"serving": False, "controllers": True}


def test_no_image_has_a_compiler_or_pip(image: Image) -> None:
    files = image.files()
    assert not [path for path in files if COMPILERS.match(PurePath(path).name) and "bin/" in path]
    assert not [path for path in files if re.search(r"/(site|dist)-packages/pip/|bin/pip", path)]


def test_no_image_has_tests_or_other_files_of_the_checkout(image: Image, base: Image) -> None:
    files = files_above_base(image, base)
    assert not [path for path in files if not path.startswith(INSTALL_FOLDER)]
    tests = [path for path in files if re.search(r"/(tests?|conftest\.py)(/|$)", path)]
    assert not tests, tests[:10]


def test_no_image_has_a_second_python(image: Image, base: Image) -> None:
    interpreter = re.compile(r"(^|/)python3?(\.[0-9]+)?$")
    library = re.compile(r"(^|/)lib/python3[^/]*/os\.py$")
    assert [path for path in base.files() if interpreter.search(path)]
    assert [path for path in base.files() if library.search(path)]
    for pattern in (interpreter, library):
        assert not [path for path in files_above_base(image, base) if pattern.search(path)]


def test_an_image_runs_as_a_user_that_is_given_by_number(image: Image) -> None:
    assert image.config["config"]["User"] == "65532:65532"


def test_no_image_has_setuid_or_setgid_files(image: Image) -> None:
    """Protects containers without the chart's security context: su or mount could give them more rights."""
    assert image.setuid_files() == set()
