"""Writes the chart of a release, and the manifests that Helm renders from it for users without Helm."""

import gzip
import tarfile
from collections.abc import Mapping
from pathlib import Path

from testbed import chart
from testbed.images import layout, product
from testbed.release.source import ReleaseError


def write(
    files: Path,
    out: Path,
    archives: Mapping[str, Path],
    date: int,
    sets: Mapping[str, Mapping[str, object]] | None = None,
) -> None:
    """Writes the chart, and one manifest for each set of values.

    Args:
        files: The folder of the release's sources, whose chart gets the digests.
        out: The folder of the release.
        archives: The archives of the images, by name and tag.
        date: The date of the commit, in seconds since 1970, so that the same commit gives the same files.
        sets: Sets of values, by the manifest's name; by default ``install`` and the recommended sets.

    Raises:
        ReleaseError: The values of the chart have no empty digest for an image.
        ChartError: Helm cannot render the chart.
    """
    folder = files / "manifests" / "chart"
    write_digests(folder / "values.yaml", archives)
    pack(folder, out / f"{chart.NAME}-chart-{product.version(files)}.tgz", date)
    for name, values in (sets or {"install": {}, **_recommended_sets()}).items():
        (out / f"{name}.yaml").write_text(chart.render(values, folder), encoding="utf-8")


def _recommended_sets() -> dict[str, dict[str, object]]:
    return {f"install-{name}": values for name, values in chart.RECOMMENDED.items()}


def write_digests(values: Path, archives: Mapping[str, Path]) -> None:
    """Writes the digests of images into the values of a chart, and keeps all comments.

    Raises:
        ReleaseError: The values have no empty digest for an image.
    """
    text = values.read_text(encoding="utf-8")
    for image, path in archives.items():
        name = image.partition(":")[0]
        without_digest = f'{{repository: {name}, digest: ""}}'
        if without_digest not in text:
            raise ReleaseError(f"values.yaml of the chart has no {without_digest}")
        text = text.replace(without_digest, f"{{repository: {name}, digest: {layout.digest(path)}}}")
    values.write_text(text, encoding="utf-8")


def pack(folder: Path, target: Path, date: int) -> None:
    """Writes a chart as ``helm package`` does, but with a fixed date: equal charts give equal archives."""

    def normalize(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.mtime, member.uid, member.gid, member.uname, member.gname = date, 0, 0, "", ""
        member.mode = 0o755 if member.isdir() else 0o644
        return member

    with (
        target.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for path in sorted(folder.rglob("*")):
            archive.add(path, f"{chart.NAME}/{path.relative_to(folder)}", recursive=False, filter=normalize)
