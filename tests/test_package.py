"""Tests of the wheel, the sdist, and the steps of the Dockerfile that need no container.

These tests build no image, which takes root and minutes; tests/nodes tests the images of ``make images``.
Here, the wheel runs with the dependencies of the tests, as an unprivileged user if that user can run this
Python. tests/nodes/install tests installations as an unprivileged user with a read-only root.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
NOBODY = 65532
PACKAGE_FILES = (
    *(
        f"webhook/rules/packaged/{name}.yaml"
        for name in ("rules", "launcher", "kueue", "checks", "aws-document")
    ),
    "webhook/rules/packaged/placement.yaml",
    "webhook/rules/podtemplate.schema.json",
    "webhook/preview/static/page.css",
    "webhook/preview/templates/page.html",
    "webhook/initscript/common.sh",
    "webhook/initscript/wait.sh",
    "webhook/initscript/init.sh",
    "webhook/py.typed",
)


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with a wheel and an sdist of this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    source = folder / "source"
    shutil.copytree(
        REPOSITORY,
        source,
        ignore=shutil.ignore_patterns(".git", ".venv", ".cache", ".dev", "dist", "__pycache__"),
    )
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def installed(dist: Path) -> Iterator[Path]:
    """The wheel, unpacked into a folder that is not writable."""
    (wheel,) = dist.glob("*.whl")
    # Under /opt, because an unprivileged user cannot read pytest's folders.
    tree = Path("/opt") / f"ultraserver-webhook-test-{os.getpid()}"
    shutil.unpack_archive(wheel, tree, "zip")
    subprocess.run(["chmod", "-R", "a-w,a+rX", str(tree)], check=True)
    yield tree
    shutil.rmtree(tree)


def test_the_wheel_contains_the_table_the_schema_and_the_scripts(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    assert set(PACKAGE_FILES) <= set(zipfile.ZipFile(wheel).namelist())


def test_the_wheel_installs_the_commands(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (entries,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        text = archive.read(entries).decode()
    # kubectl finds a plugin by its name.
    assert "kubectl-ultraserver = kubectl_ultraserver.__main__:main" in text
    assert "ultraserver-webhook = webhook.cli:main" in text


def test_the_sdist_contains_the_files_that_make_needs(dist: Path) -> None:
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    build_files = {
        "Makefile",
        "locks/dev.txt",
        "Dockerfile",
        ".dockerignore",
        "examples/four-node.yaml",
        "manifests/chart/values.yaml",
    }
    assert build_files | set(PACKAGE_FILES) <= names


INSTALLED = """
import sys
tree = sys.argv[1]
# The tree is first, so that its package is imported, and not the package of the checkout.
sys.path.insert(0, tree)
import webhook.cli
print(webhook.cli.__file__, file=sys.stderr)
for command in ("rules lint", "rules schema", "preview -"):
    try:
        webhook.cli.main(command.split())
    except SystemExit as error:
        print(f"{command} ends with {error.code}", file=sys.stderr)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
@pytest.mark.limit(10, "starts two processes")
def test_the_wheel_works_outside_the_checkout_from_a_read_only_folder(
    installed: Path,
) -> None:
    user: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if user_runs_python() else {}
    result = subprocess.run(
        [sys.executable, "-P", "-c", INSTALLED, str(installed)],
        cwd="/",
        input=(REPOSITORY / "examples/four-node.yaml").read_text(encoding="utf-8"),
        env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
        capture_output=True,
        text=True,
        **user,
    )
    assert result.stderr.startswith(f"{installed}/"), result.stderr
    for message in ("rules lint ends with 0", "rules schema ends with 0", "preview - ends with 1"):
        assert message in result.stderr
    assert str(REPOSITORY) not in result.stderr


def user_runs_python() -> bool:
    """Returns whether the unprivileged user can run this Python, which may be in another user's home."""
    probe = [sys.executable, "-c", "import click"]
    try:
        result = subprocess.run(
            probe, user=NOBODY, group=NOBODY, extra_groups=[], check=False, capture_output=True
        )
    except PermissionError:
        return False
    return result.returncode == 0


def test_every_step_of_the_dockerfile_copies_existing_files() -> None:
    lines = (REPOSITORY / "Dockerfile").read_text(encoding="utf-8").splitlines()
    copied = [line.split()[1:-1] for line in lines if line.startswith("COPY ") and "--from" not in line]
    assert copied
    assert all((REPOSITORY / name).exists() for names in copied for name in names)
    ignored = (REPOSITORY / ".dockerignore").read_text(encoding="utf-8").splitlines()
    excepted = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    assert {name for names in copied for name in names} == excepted


def test_the_serving_image_has_no_client_of_the_api_server() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert not [name for name in project["dependencies"] if name.startswith("kubernetes")]
    assert [name.partition("=")[0] for name in project["optional-dependencies"]["controllers"]] == [
        "kubernetes"
    ]
    *_, serving = (REPOSITORY / "Dockerfile").read_text(encoding="utf-8").split("\nFROM ")
    assert serving.startswith("runtime AS serving\n")
    assert "COPY --from=build /opt" in serving


WITHOUT_CLIENT = """
import sys

class NoClient:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "kubernetes":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NoClient())
import runpy
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""


@pytest.mark.limit(5, "starts a process")
def test_certs_dev_runs_without_the_kubernetes_client(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_CLIENT, "certs", "dev", f"--dir={tmp_path}"]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


@pytest.mark.limit(5, "starts a process")
def test_without_the_kubernetes_client_certs_status_names_the_extra(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_CLIENT, "certs", "status", f"--kubeconfig={tmp_path}/none"]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    assert result.returncode == 2
    assert "ultraserver-webhook[controllers]" in result.stderr
    assert "Traceback" not in result.stderr
