"""Builds the product's images and a job's, without a registry: ``python -m testbed.images.product``.

The product's come from the Dockerfile as it is, by buildah; their base, and the job's, is made by debootstrap
from the mirror that this machine's apt is set up with. All is kept in the cache, as archives that containerd
imports.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

from testbed.images import debian, layout
from testbed.kits import kit, progress
from testbed.nodes.namespaces import PATH
from testbed.plane.process import ClusterError, end_as_by_ctrl_c

REPOSITORY = Path(__file__).resolve().parents[2]
FILES = Path(__file__).resolve().parent / "containerfiles"
CACHE = kit.CACHE / "images"
BASE = "localhost/debian-python:1"
ON_BASE = f"--build-arg=BASE={BASE}"
JOB = "123456789012.dkr.ecr.us-west-2.amazonaws.com/ultraserver:mpijob"
"""As the README's job and the AWS document name it."""
TARGETS = {"serving": "ultraserver-webhook", "controllers": "ultraserver-webhook-controllers"}
"""The product's images, by the target of the Dockerfile."""
STAGE = "build-controllers"
"""The stage of the Dockerfile that has all that is installed."""
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
NEEDED = ("debootstrap", "buildah", "apt-get", "setpriv", "unshare")
# debootstrap and buildah mount things in what they build. So nothing stays mounted when they are killed,
# and the next build does not begin by deleting what is below a /proc. They end when this process does, even
# if it is killed: the next build would delete what they still write.
ALONE = (
    *("setpriv", "--pdeathsig=KILL", "unshare", "--fork", "--kill-child"),
    *("--mount", "--propagation=private", "--pid", "--mount-proc"),
)


def version(source: Path = REPOSITORY) -> str:
    """Returns the version of a checkout, which is the tag of its images."""
    project = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def context() -> list[str]:
    """Returns the files and folders of the checkout that decide what the images hold."""
    lines = (REPOSITORY / ".dockerignore").read_text(encoding="utf-8").splitlines()
    return ["Dockerfile", ".dockerignore", *(line[1:] for line in lines if line.startswith("!"))]


def recipe() -> str:
    """Returns the hash of all that decides what the images hold, packages from elsewhere excepted."""
    digest = hashlib.sha256(f"{debian.SUITE} {debian.INCLUDE} {JOB} {TARGETS} {version()}".encode())
    built_from = [REPOSITORY / name for name in context()]
    files = [*built_from, *FILES.iterdir(), *(file for folder in built_from for file in folder.rglob("*"))]
    for file in sorted(files):
        if file.is_file() and file.suffix != ".pyc":
            digest.update(f"{file.relative_to(REPOSITORY)}\n".encode() + _decisive(file))
    return digest.hexdigest()[:16]


def _decisive(file: Path) -> bytes:
    """Returns the parts of a file that decide what the images hold, without settings of lints and tests."""
    if file.name != "pyproject.toml":
        return file.read_bytes()
    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    project = {key: value for key, value in tables["project"].items() if key != "optional-dependencies"}
    controllers = tables["project"]["optional-dependencies"]["controllers"]
    wheel = tables["tool"]["hatch"]["build"]["targets"]["wheel"]
    return json.dumps([tables["build-system"], project, controllers, wheel], sort_keys=True).encode()


def directory() -> Path:
    """Returns where the archives are, or will be."""
    return CACHE / recipe()


def archives() -> list[Path]:
    """Returns the archives, whether or not they are there: base, the product's two, the job's."""
    return [directory() / f"{name}.tar" for name in ("base", *TARGETS, "job")]


def built() -> list[Path]:
    """Returns the archives, where they are there; nothing else can be had on the nodes then."""
    return [] if missing() else archives()


def missing() -> bool:
    """Returns whether they have to be built. The folder appears once all are."""
    return not directory().is_dir()


class Builder:
    """Builds images, and says what it is at.

    Args:
        out: where their archives go.
        report: gets every step.
    """

    def __init__(self, out: Path, report: progress.Progress) -> None:
        self._out = out
        self._progress = report
        storage = CACHE / "buildah"
        storage.mkdir(parents=True, exist_ok=True)
        config = storage / "storage.conf"
        places = f'graphroot = "{storage}/root"\nrunroot = "{storage}/run"\n'
        config.write_text(f'[storage]\ndriver = "overlay"\n{places}', encoding="utf-8")
        policy = storage / "policy.json"
        policy.write_text(json.dumps({"default": [{"type": "insecureAcceptAnything"}]}), encoding="utf-8")
        self._policy = f"--signature-policy={policy}"
        self._env = {**os.environ, "PATH": PATH, "CONTAINERS_STORAGE_CONF": str(config)}

    def run(self, name: str, *command: str) -> None:
        """Runs one phase."""
        self._progress.phase(name, [*ALONE, *command], cwd=self._out, env=self._env)

    def debian(self) -> Path:
        """Returns the archive of a small Debian with Python; kept until what it is made of changes."""
        archive = debian.archive(CACHE)
        if not archive.is_file():
            root = self._out / "debian"
            options = ["--force-check-gpg", "--variant=minbase", f"--include={debian.INCLUDE}"]
            self.run("debootstrap", "debootstrap", *options, debian.SUITE, str(root), debian.mirror())
            # Downloaded packages, and the packages' texts.
            for folder in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale"):
                shutil.rmtree(root / folder)
            fresh = archive.with_suffix(".new")
            self.run(
                "debian.tar",
                "tar",
                "--numeric-owner",
                f"--directory={root}",
                f"--file={fresh}",
                "--create",
                ".",
            )
            shutil.rmtree(root)
            fresh.rename(archive)
        return archive

    def below(self) -> Path:
        """Builds what all images are built on, and returns a folder with what the job's is built from."""
        context = self._out / "context"
        context.mkdir()
        os.link(self.debian(), context / "debian.tar")
        for name in ("train.sh", "train.py"):
            shutil.copy(FILES / name, context)
        self.image("base", BASE, FILES / "debian", context)
        return context

    def product(self, source: Path) -> None:
        """Builds the product's images from a checkout, on what is below them."""
        # What pip trusts is what this machine trusts: a registry may be behind a proxy of its own.
        trust = f"--volume={CERTIFICATES}:{CERTIFICATES}:ro"
        file, options = source / "Dockerfile", (ON_BASE, trust)
        for target, name in TARGETS.items():
            tag, folder = f"{name}:{version(source)}", self._out / target
            self._build(target, tag, file, source, *options, f"--target={target}")
            self.run(f"{target}.tar", "buildah", "push", self._policy, tag, f"dir:{folder}")
            layout.pack(folder, self._out / f"{target}.tar", *tag.split(":"))
            shutil.rmtree(folder)
        # Built already, as the controllers' files are copied from it. With a name it outlasts `prune`, and
        # its packages need not be installed again.
        self._build(STAGE, f"localhost/{STAGE}:1", file, source, *options, f"--target={STAGE}")

    def image(self, name: str, tag: str, file: Path, context: Path, *options: str) -> None:
        """Builds an image and writes ``<name>.tar``."""
        self._build(name, tag, file, context, *options)
        archive = f"docker-archive:{self._out}/{name}.tar:{tag}"
        self.run(f"{name}.tar", "buildah", "push", self._policy, tag, archive)

    def _build(self, name: str, tag: str, file: Path, context: Path, *options: str) -> None:
        command = ["buildah", "bud", self._policy, "--isolation=chroot", "--format=docker", "--layers"]
        self.run(name, *command, *options, f"--tag={tag}", f"--file={file}", str(context))

    def prune(self) -> None:
        """Removes what builds that were killed have left, and the layers that no image with a name has."""
        self.run("old containers", "buildah", "rm", "--all")
        self.run("old layers", "buildah", "rmi", "--prune")


def build_into(out: Path) -> None:
    """Builds every image; their archives are in ``out`` then."""
    builder = Builder(out, progress.Progress(11 + new_steps()))
    context = builder.below()
    builder.product(REPOSITORY)
    builder.image("job", JOB, FILES / "job", context, ON_BASE)
    shutil.rmtree(context)
    builder.prune()


def new_steps() -> int:
    """Returns how many steps come first where no small Debian is kept."""
    return 0 if debian.archive(CACHE).is_file() else 2


def unbuildable() -> str:
    """Returns why images cannot be built on this machine; empty where they can."""
    lacking = [name for name in NEEDED if shutil.which(name, path=PATH) is None]
    if os.geteuid() or lacking:
        return f"images cannot be built here: {', '.join(lacking) or 'this needs root'}"
    return ""


@contextlib.contextmanager
def building() -> Iterator[Path]:
    """Yields a folder on the cache's disk, to build images in. A second build waits, then finds them built.

    Raises:
        ClusterError: none can be built on this machine.
    """
    if why := unbuildable():
        raise ClusterError(why)
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        out = CACHE / ".building"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        try:
            yield out
        finally:
            shutil.rmtree(out, ignore_errors=True)


def main() -> int:
    """Builds what is missing and says where it is."""
    end_as_by_ctrl_c()
    start = time.monotonic()
    with building() as out:
        if missing():
            progress.say("building the images of the product and of a job")
            build_into(out)
            out.rename(directory())
            kit.keep_newest(CACHE)
    progress.say(f"the images are ready in {directory()} after {time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (progress.PhaseError, ClusterError) as error:
        sys.exit(f"images: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
