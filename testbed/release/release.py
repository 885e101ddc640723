"""Writes a release: ``python -m testbed.release.release [--dirty [--keep] | --before] [--key FILE]``.

A release is a folder with all files that an installation needs, so that users need no clone: wheel and sdist,
the kubectl plugin as one file, the two images as archives, the bill of materials, the chart, manifests for
``kubectl apply`` with the default values and with each recommended set of values, provenance, checksums and
their signature. The same commit gives the same files, except for the images: they contain the Debian packages
of the day.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from testbed import chart
from testbed.images import product
from testbed.kits import kit, progress
from testbed.plane.process import ClusterError, end_on_signals
from testbed.release import installs, provenance, record, signature, source
from testbed.release.pyz import write as plugin

DIST = product.REPOSITORY / "dist"
BILL = DIST / "sbom.cdx.json"
SUMS = "SHA256SUMS"
ABOUT = "release.json"
BEFORE = "61684e23369530e2b72a7f2ba1622156889b0023"
"""The commit of the previous release, 0.2.0."""


def folder(version: str) -> Path:
    """Returns the folder of this checkout's release, which may not exist yet."""
    return DIST / f"release-{version}"


def previous_folder() -> Path:
    """Returns the folder of the previous release, which may not exist yet."""
    return kit.CACHE / "releases" / BEFORE


def why_previous_unbuildable() -> str:
    """Returns why this clone cannot build the previous release; empty if it can."""
    if source.has_commit(BEFORE) or not source.is_shallow():
        return ""
    return f"this clone is shallow, and lacks the commit {BEFORE} of the previous release"


def why_stale() -> str:
    """Returns why ``dist`` has no release that installs the files of this checkout; empty if it has."""
    about = folder(product.version()) / ABOUT
    if not about.is_file():
        return "there is no release of this checkout: make release"
    existing = json.loads(about.read_text(encoding="utf-8"))
    try:
        with source.checkout() as sources:
            if existing.get("installed") == installed_files(sources):
                return ""
        remedy = "make release DIRTY=1" if source.changes() else "make release"
    except source.ReleaseError as error:
        return str(error)
    return f"{about.parent} is of another state of this checkout: {remedy}"


def installed_files(sources: source.Source) -> list[str]:
    """Returns the ``git ls-tree`` lines of all files that decide what is installed."""
    return sources.part([*product.context(), "manifests", "examples"])


class Writer:
    """Writes the files of a release.

    Args:
        sources: The sources of the release.
        files: The folder with the files of the sources.
        out: The folder of the release.
        report: Prints each step.
    """

    def __init__(self, sources: source.Source, files: Path, out: Path, report: progress.Progress) -> None:
        self._sources, self._files, self._out, self._report = sources, files, out, report
        self._env = {**os.environ, "SOURCE_DATE_EPOCH": sources.date()}

    def packages(self) -> None:
        """Writes wheel and sdist."""
        command = [sys.executable, "-m", "hatchling", "build", "--directory", str(self._out)]
        self._report.phase("wheel, sdist", command, cwd=self._files, env=self._env)

    def plugin(self) -> None:
        """Writes the kubectl plugin as one file, and its manifest for krew."""
        plugin.write(self._files, self._out, product.version(self._files), int(self._sources.date()))

    def manifests(self) -> None:
        """Writes the chart with the images' digests, and the manifests that Helm renders from it."""
        installs.write(self._files, self._out, self.archives(), int(self._sources.date()))

    def archives(self) -> dict[str, Path]:
        """Returns the archives of the product's images, by name and tag of the image."""
        version = product.version(self._files)
        return {f"{name}:{version}": self._out / f"{name}-{version}.tar" for name in product.TARGETS.values()}

    def images(self, built: Path) -> None:
        """Copies the archives of the product's images from the folder in which they were built."""
        for target, path in zip(product.TARGETS, self.archives().values(), strict=True):
            shutil.copyfile(built / f"{target}.tar", path)

    def provenance(self) -> None:
        """Writes the provenance of all files."""
        dirty = self._sources.tree != source.source_of(self._sources.commit).tree
        document = provenance.statement(self._out.iterdir(), self.archives(), self._sources, dirty=dirty)
        (self._out / provenance.NAME).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")

    def about(self) -> None:
        """Writes the version, the commit, and the ``git ls-tree`` lines of the installed files."""
        about = {
            "version": product.version(self._files),
            "commit": self._sources.commit,
            "tree": self._sources.tree,
            "installed": installed_files(self._sources),
        }
        (self._out / ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")

    def sums(self) -> Path:
        """Writes the checksums of all files for ``sha256sum --check``, and returns the path of this list."""
        lines = [f"{provenance.sha256(path)}  {path.name}\n" for path in sorted(self._out.iterdir())]
        (self._out / SUMS).write_text("".join(lines), encoding="utf-8")
        return self._out / SUMS


def write(sources: source.Source, soak: Path | None = None, key: Path | None = None) -> Path:
    """Writes the release of this checkout. Its images and bill of materials must exist.

    Args:
        sources: The sources of the release.
        soak: The soak record of the commit, which is added to the release; None for a trial.
        key: The key that signs the checksums; None for no signature.

    Raises:
        ReleaseError: The key cannot sign, or is not in ``allowed_signers``. A trial may use any key.
    """
    target = folder(product.version())
    DIST.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".release-", dir=DIST) as scratch:
        files, out = sources.export(Path(scratch) / "source"), Path(scratch) / "out"
        out.mkdir()
        writer = Writer(sources, files, out, progress.Progress(1))
        writer.images(product.directory())
        writer.packages()
        progress.say("chart and manifests")
        writer.manifests()
        writer.plugin()
        progress.say("bill of materials, provenance and checksums")
        shutil.copyfile(BILL, out / BILL.name)
        if soak:
            shutil.copyfile(soak, out / "soak.json")
        writer.about()
        writer.provenance()
        sums = writer.sums()
        if key:
            signature.sign(sums, key)
            if soak and (why := signature.why_refused(sums)):
                raise source.ReleaseError(f"the public key is not in {why}")
        else:
            progress.say("no signature: RELEASE_KEY names no key")
        shutil.rmtree(target, ignore_errors=True)
        out.rename(target)
    return target


def write_previous() -> Path:
    """Builds the previous release from its commit, unless it is in the cache, and returns its folder.

    Raises:
        ReleaseError: This clone does not have the commit.
    """
    if not source.has_commit(BEFORE):
        raise source.ReleaseError(
            f"this complete clone has no commit {BEFORE}, from which the previous release is built: "
            f"change BEFORE in {Path(__file__).name} to the commit of the previous release"
        )
    commit = source.source_of(BEFORE)
    with product.building() as scratch:
        if previous_folder().is_dir():
            return previous_folder()
        progress.say(f"building the previous release from commit {BEFORE[:12]}; the next runs use this build")
        files, built, out = commit.export(scratch / "source"), scratch / "built", scratch / "out"
        built.mkdir()
        out.mkdir()
        report = progress.Progress(9 + product.new_steps())
        builder = product.Builder(built, report)
        builder.build_base()
        builder.product(files)
        writer = Writer(commit, files, out, report)
        writer.images(built)
        writer.packages()
        installs.write(files, out, writer.archives(), int(commit.date()), sets={"install": {}})
        writer.about()
        writer.sums()
        previous_folder().parent.mkdir(exist_ok=True)
        out.rename(previous_folder())
        kit.keep_newest(previous_folder().parent)
    return previous_folder()


def main() -> int:
    """Writes a release, prints its folder, and returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m testbed.release.release")
    parser.add_argument("--dirty", action="store_true", help="release the checkout as it is, with changes")
    parser.add_argument(
        "--before", action="store_true", help="build the previous release, from which a test upgrades"
    )
    parser.add_argument(
        "--keep", action="store_true", help="do nothing if there is a release that installs the same files"
    )
    parser.add_argument("--key", type=Path, metavar="FILE", help="sign the checksums with this SSH key")
    options = parser.parse_args()
    end_on_signals()
    start = time.monotonic()
    if options.before and why_previous_unbuildable():
        progress.say(f"{why_previous_unbuildable()}, so it is not built, and the upgrade test is skipped")
        return 0
    if options.keep and not why_stale():
        return 0
    if options.before:
        target = write_previous()
    elif options.dirty:
        with source.checkout() as sources:
            target = write(sources, key=options.key)
    else:
        sources = source.clean()
        target = write(sources, record.record_of(sources.commit).path(), options.key)
    progress.say(f"the release is in {target} after {time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (
        progress.PhaseError,
        ClusterError,
        chart.ChartError,
        source.ReleaseError,
        FileNotFoundError,
    ) as error:
        sys.exit(f"release: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
