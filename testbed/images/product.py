"""Builds the images of the product and of a job, without a registry: ``python -m testbed.images.product``.

buildah builds the product's images from the unchanged Dockerfile. debootstrap builds the base of
all images from the Debian mirror of this machine's apt. The cache keeps all images as archives, which
containerd imports.
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
from testbed.plane.process import ClusterError, end_on_signals

REPOSITORY = Path(__file__).resolve().parents[2]
FILES = Path(__file__).resolve().parent / "containerfiles"
CACHE = kit.CACHE / "images"
BASE = "localhost/debian-python:1"
BASE_OPTION = f"--build-arg=BASE={BASE}"
JOB = "123456789012.dkr.ecr.us-west-2.amazonaws.com/ultraserver:mpijob"
"""The image in the README's job and in the AWS document."""
TARGETS = {"serving": "ultraserver-webhook", "controllers": "ultraserver-webhook-controllers"}
"""The product's images, by the target of the Dockerfile."""
STAGE = "build-controllers"
"""The stage of the Dockerfile with all installed packages."""
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
NEEDED = ("debootstrap", "buildah", "apt-get", "setpriv", "unshare")
# debootstrap and buildah mount file systems in the folders that they build. With these options, no file
# system stays mounted when they are killed. Otherwise the next build could delete files of a mounted /proc.
# Both programs also end with this process, because the next build deletes the folders that they write.
ISOLATED = (
    *("setpriv", "--pdeathsig=KILL", "unshare", "--fork", "--kill-child"),
    *("--mount", "--propagation=private", "--pid", "--mount-proc"),
)


def version(source: Path = REPOSITORY) -> str:
    """Returns the version of a checkout, which is the tag of its images."""
    project = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def context() -> list[str]:
    """Returns the files and folders of the checkout from which the images are built."""
    lines = (REPOSITORY / ".dockerignore").read_text(encoding="utf-8").splitlines()
    return ["Dockerfile", ".dockerignore", *(line[1:] for line in lines if line.startswith("!"))]


def recipe() -> str:
    """Returns the hash of everything that decides the contents of the images, except external packages."""
    digest = hashlib.sha256(f"{debian.SUITE} {debian.INCLUDE} {JOB} {TARGETS} {version()}".encode())
    sources = [REPOSITORY / name for name in context()]
    files = [*sources, *FILES.iterdir(), *(file for folder in sources for file in folder.rglob("*"))]
    for file in sorted(files):
        if file.is_file() and file.suffix != ".pyc":
            digest.update(f"{file.relative_to(REPOSITORY)}\n".encode() + _decisive_parts(file))
    return digest.hexdigest()[:16]


def _decisive_parts(file: Path) -> bytes:
    """Returns the parts of a file that decide the contents of the images, without settings of linters."""
    if file.name != "pyproject.toml":
        return file.read_bytes()
    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    project = {key: value for key, value in tables["project"].items() if key != "optional-dependencies"}
    controllers = tables["project"]["optional-dependencies"]["controllers"]
    wheel = tables["tool"]["hatch"]["build"]["targets"]["wheel"]
    return json.dumps([tables["build-system"], project, controllers, wheel], sort_keys=True).encode()


def directory() -> Path:
    """Returns the folder of the archives, which may not exist yet."""
    return CACHE / recipe()


def archives() -> list[Path]:
    """Returns the archives of the base, the product's images and the job's image, which may not exist yet."""
    return [directory() / f"{name}.tar" for name in ("base", *TARGETS, "job")]


def built() -> list[Path]:
    """Returns the archives; an empty list if they do not exist."""
    return [] if missing() else archives()


def missing() -> bool:
    """Returns whether the archives must be built. Their folder exists only when all archives are built."""
    return not directory().is_dir()


class Builder:
    """Builds images, and reports each step.

    Args:
        out: The folder of the archives.
        report: Reports the steps.
    """

    def __init__(self, out: Path, report: progress.Progress) -> None:
        self._out = out
        self._progress = report
        storage = CACHE / "buildah"
        storage.mkdir(parents=True, exist_ok=True)
        config = storage / "storage.conf"
        paths = f'graphroot = "{storage}/root"\nrunroot = "{storage}/run"\n'
        config.write_text(f'[storage]\ndriver = "overlay"\n{paths}', encoding="utf-8")
        policy = storage / "policy.json"
        policy.write_text(json.dumps({"default": [{"type": "insecureAcceptAnything"}]}), encoding="utf-8")
        self._policy = f"--signature-policy={policy}"
        self._env = {**os.environ, "PATH": PATH, "CONTAINERS_STORAGE_CONF": str(config)}

    def run(self, name: str, *command: str) -> None:
        """Runs the command of one phase, isolated from the machine (`ISOLATED`)."""
        self._progress.phase(name, [*ISOLATED, *command], cwd=self._out, env=self._env)

    def debian(self) -> Path:
        """Returns the archive of a small Debian with Python. Builds it if it is not in the cache."""
        archive = debian.archive(CACHE)
        if not archive.is_file():
            root = self._out / "debian"
            options = ["--force-check-gpg", "--variant=minbase", f"--include={debian.INCLUDE}"]
            self.run("debootstrap", "debootstrap", *options, debian.SUITE, str(root), debian.mirror())
            # Downloaded packages and documentation are not needed.
            for folder in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale"):
                shutil.rmtree(root / folder)
            new_archive = archive.with_suffix(".new")
            self.run(
                "debian.tar",
                "tar",
                "--numeric-owner",
                f"--directory={root}",
                f"--file={new_archive}",
                "--create",
                ".",
            )
            shutil.rmtree(root)
            new_archive.rename(archive)
        return archive

    def build_base(self) -> Path:
        """Builds the base of all images, and returns the folder with the files of the job's image."""
        context = self._out / "context"
        context.mkdir()
        os.link(self.debian(), context / "debian.tar")
        for name in ("train.sh", "train.py"):
            shutil.copy(FILES / name, context)
        self.image("base", BASE, FILES / "debian", context)
        return context

    def product(self, source: Path) -> None:
        """Builds the product's images from a checkout, on the base."""
        # pip trusts this machine's certificate authorities, because the registry may be behind a proxy.
        trust = f"--volume={CERTIFICATES}:{CERTIFICATES}:ro"
        file, options = source / "Dockerfile", (BASE_OPTION, trust)
        for target, name in TARGETS.items():
            tag, folder = f"{name}:{version(source)}", self._out / target
            self._build(target, tag, file, source, *options, f"--target={target}")
            self.run(f"{target}.tar", "buildah", "push", self._policy, tag, f"dir:{folder}")
            layout.pack(folder, self._out / f"{target}.tar", *tag.split(":"))
            shutil.rmtree(folder)
        # This stage is built already, because the controllers' image copies files from it. With a name, it
        # stays after `prune`, so that its packages need not be installed again.
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
        """Removes the containers of killed builds, and the layers that belong to no named image."""
        self.run("old containers", "buildah", "rm", "--all")
        self.run("old layers", "buildah", "rmi", "--prune")


def build_into(out: Path) -> None:
    """Builds every image, with its archive in ``out``."""
    builder = Builder(out, progress.Progress(11 + new_steps()))
    context = builder.build_base()
    builder.product(REPOSITORY)
    builder.image("job", JOB, FILES / "job", context, BASE_OPTION)
    shutil.rmtree(context)
    builder.prune()


def new_steps() -> int:
    """Returns the number of steps that build the small Debian; 0 if the cache has it."""
    return 0 if debian.archive(CACHE).is_file() else 2


def unbuildable() -> str:
    """Returns the reason why images cannot be built on this machine; empty if they can be built."""
    missing = [name for name in NEEDED if shutil.which(name, path=PATH) is None]
    if os.geteuid() or missing:
        return f"images cannot be built here: {', '.join(missing) or 'this needs root'}"
    return ""


@contextlib.contextmanager
def building() -> Iterator[Path]:
    """Yields a folder in the cache, in which images can be built. A second build waits for the first build.

    Raises:
        ClusterError: Images cannot be built on this machine.
    """
    if reason := unbuildable():
        raise ClusterError(reason)
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
    """Builds the images if they are missing, and prints where they are."""
    end_on_signals()
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
