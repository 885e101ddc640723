"""What a release is made of: wheel and sdist, and the steps of the Dockerfile that need no container.

No image is built here, which needs root and takes minutes; tests/nodes looks at those of
``make images``. The steps are taken by hand instead, with the dependencies that the tests run with, as an
unprivileged user where that user can reach this Python at all.
Whole installations as such a user, with a read-only root, are in tests/nodes/install.
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
CARRIED = (
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
    """The wheel, unpacked into a tree of its own that no one may write."""
    (wheel,) = dist.glob("*.whl")
    # Under /opt, for an unprivileged user may not enter pytest's folders.
    tree = Path("/opt") / f"ultraserver-webhook-test-{os.getpid()}"
    shutil.unpack_archive(wheel, tree, "zip")
    subprocess.run(["chmod", "-R", "a-w,a+rX", str(tree)], check=True)
    yield tree
    shutil.rmtree(tree)


def test_the_wheel_carries_the_table_its_schemas_and_the_scripts(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    assert set(CARRIED) <= set(zipfile.ZipFile(wheel).namelist())


def test_the_wheel_brings_the_commands(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (entries,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        text = archive.read(entries).decode()
    # kubectl finds a plugin by its name.
    assert "kubectl-ultraserver = kubectl_ultraserver.__main__:main" in text
    assert "ultraserver-webhook = webhook.cli:main" in text


def test_the_sdist_carries_what_make_needs(dist: Path) -> None:
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {
        "Makefile",
        "locks/dev.txt",
        "Dockerfile",
        ".dockerignore",
        "examples/four-node.yaml",
        "manifests/chart/values.yaml",
    }
    assert wanted | set(CARRIED) <= names


INSTALLED = """
import sys
tree = sys.argv[1]
# The tree first, so that it is this package that is found and not the checkout's.
sys.path.insert(0, tree)
import webhook.cli
print(webhook.cli.__file__, file=sys.stderr)
for command in ("rules lint", "rules schema", "preview -"):
    try:
        webhook.cli.main(command.split())
    except SystemExit as done:
        print(f"{command} ends with {done.code}", file=sys.stderr)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
@pytest.mark.limit(10, "starts two processes")
def test_an_installed_wheel_works_outside_the_checkout_from_a_tree_that_is_not_written(
    installed: Path,
) -> None:
    user: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if reachable() else {}
    done = subprocess.run(
        [sys.executable, "-P", "-c", INSTALLED, str(installed)],
        cwd="/",
        input=(REPOSITORY / "examples/four-node.yaml").read_text(encoding="utf-8"),
        env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
        capture_output=True,
        text=True,
        **user,
    )
    assert done.stderr.startswith(f"{installed}/"), done.stderr
    for message in ("rules lint ends with 0", "rules schema ends with 0", "preview - ends with 1"):
        assert message in done.stderr
    assert str(REPOSITORY) not in done.stderr


def reachable() -> bool:
    """Returns whether that user may run this very Python, which may lie in a user's home."""
    probe = [sys.executable, "-c", "import click"]
    try:
        done = subprocess.run(
            probe, user=NOBODY, group=NOBODY, extra_groups=[], check=False, capture_output=True
        )
    except PermissionError:
        return False
    return done.returncode == 0


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
def test_a_command_of_certs_that_needs_no_api_server_runs_without_its_client(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_CLIENT, "certs", "dev", f"--dir={tmp_path}"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.limit(5, "starts a process")
def test_without_the_client_a_command_that_needs_it_names_the_extra(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_CLIENT, "certs", "status", f"--kubeconfig={tmp_path}/none"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert "ultraserver-webhook[controllers]" in done.stderr
    assert "Traceback" not in done.stderr
