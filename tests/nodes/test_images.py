"""What the product's images hold: what they need, and nothing else."""

import re
from pathlib import PurePath

import pytest

from testbed.images import product
from testbed.images.archives import Image

PLACE = "opt/ultraserver-webhook/"
SERVING_LIMIT = 48_000_000
"""What the serving image may weigh above its base, in bytes."""
CONTROLLERS_LIMIT = 130_000_000
COMPILERS = re.compile(r"^(gcc|g\+\+|cc|c\+\+|clang|ld|as|make|cc1)(-[0-9.]+)?$")


@pytest.fixture(scope="module")
def base(image_archives: dict[str, Image]) -> Image:
    return image_archives["base"]


@pytest.fixture(params=list(product.TARGETS))
def image(request: pytest.FixtureRequest, image_archives: dict[str, Image]) -> Image:
    return image_archives[request.param]


def own(image: Image, base: Image) -> dict[str, int]:
    """Returns the files that the product's layers have."""
    return {path: size for layer in image.above(base) for path, size in layer.files.items()}


@pytest.mark.parametrize(
    ("target", "limit"), [("serving", SERVING_LIMIT), ("controllers", CONTROLLERS_LIMIT)]
)
def test_an_image_weighs_little_above_its_base(
    target: str, limit: int, image_archives: dict[str, Image], base: Image
) -> None:
    files = own(image_archives[target], base)
    # A file that two layers have is stored and fetched twice.
    size = sum(sum(layer.files.values()) for layer in image_archives[target].above(base))
    largest = sorted(files.items(), key=lambda item: -item[1])[:20]
    assert size < limit, f"{size / 1e6:.1f} MB; the largest: {largest}"


def test_only_the_controllers_have_the_client_of_the_api_server(image_archives: dict[str, Image]) -> None:
    has = {
        target: any("/site-packages/kubernetes/" in path for path in image_archives[target].files())
        for target in product.TARGETS
    }
    assert has == {"serving": False, "controllers": True}


def test_no_image_has_a_compiler_or_pip(image: Image) -> None:
    files = image.files()
    assert not [path for path in files if COMPILERS.match(PurePath(path).name) and "bin/" in path]
    assert not [path for path in files if re.search(r"/(site|dist)-packages/pip/|bin/pip", path)]


def test_no_image_has_tests_or_anything_else_of_the_checkout(image: Image, base: Image) -> None:
    files = own(image, base)
    assert not [path for path in files if not path.startswith(PLACE)]
    tests = [path for path in files if re.search(r"/(tests?|conftest\.py)(/|$)", path)]
    assert not tests, tests[:10]


def test_no_image_has_a_second_python(image: Image, base: Image) -> None:
    interpreter = re.compile(r"(^|/)python3?(\.[0-9]+)?$")
    library = re.compile(r"(^|/)lib/python3[^/]*/os\.py$")
    assert [path for path in base.files() if interpreter.search(path)]
    assert [path for path in base.files() if library.search(path)]
    for value in (interpreter, library):
        assert not [path for path in own(image, base) if value.search(path)]


def test_an_image_runs_as_its_own_user_by_number(image: Image) -> None:
    assert image.config["config"]["User"] == "65532:65532"


def test_no_program_of_an_image_runs_as_its_owner(image: Image) -> None:
    """Protects a container that may gain rights, as one without the chart's security context: su, mount."""
    assert image.setuid_files() == set()
