"""Measures the time that the webhook adds to a create: ``python -m tests.bench.admission``.

The control plane is an API server with etcd, without controllers. It calls a different webhook in each
namespace: none, this project's webhook, or a minimal webhook in Go (`main.go`, with the clients, too). The
webhook in Go always answers the same patch: the patch of this checkout, or the patch of an earlier commit. In
each round, the clients create a block of jobs in every namespace, in a random order of namespaces.
"""

import argparse
import contextlib
import itertools
import json
import random
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from testbed.kits import golang
from testbed.kits.progress import say
from testbed.plane import webhook
from testbed.plane.controlplane import ControlPlane, answers_ok
from testbed.plane.process import free_ports
from testbed.release.source import Source
from testbed.waiting import PATIENCE
from tests.bench.engine.plain import plain_job
from tests.bench.large import cpu

NONE, OURS = "none", "ours"
CREATES = {1: 60, 16: 12}
"""For each number of clients, the number of creates of each client in a block."""
PRINT_PATCH = """
import json, sys
from webhook.engine import Request, evaluate
from webhook.rules.load import load_default
outcome = evaluate(load_default(), Request(json.load(sys.stdin)))
json.dump(outcome.operations, sys.stdout, separators=(",", ":"))
"""

Times = dict[str, list[list[int]]]
Measurement = tuple[Times, Counter[str]]
"""By namespace: the microseconds of each round's creates, and the CPU time in hundredths of a second."""


class Storage(ControlPlane):
    """A control plane that only stores objects."""

    def _start_controllers(self) -> None:
        """Starts no controllers."""

    _start_operator = _start_controllers


def write_patch(checkout: Path, file: Path) -> Path:
    """Writes the patch with which the webhook of a checkout answers the job; returns the file."""
    command, job = [sys.executable, "-c", PRINT_PATCH], json.dumps(plain_job("job-0000000"))
    result = subprocess.run(command, cwd=checkout, input=job.encode(), check=True, stdout=subprocess.PIPE)
    say(f"{file.name}: a patch of {file.write_bytes(result.stdout):,} bytes")
    return file


@contextlib.contextmanager
def register_webhooks(
    plane: ControlPlane, folder: Path, program: Path, patches: list[Path]
) -> Iterator[list[str]]:
    """Starts and registers the webhooks. Yields the namespaces, each with the name of its webhook."""
    ours, (port,) = webhook.start(plane.programs, folder), free_ports(1)
    command = [program, "serve", port, folder / "tls.crt", folder / "tls.key", *patches]
    program_in_go = plane.programs.start("go", list(map(str, command)))
    go = f"https://127.0.0.1:{port}"
    program_in_go.wait_ready(lambda: answers_ok(f"{go}/readyz", ours.ca), PATIENCE)
    urls = {OURS: f"{ours.url}/mutate", **{file.name: f"{go}{file}" for file in patches}}
    with contextlib.ExitStack() as stack:
        for name in (NONE, *urls):
            plane.kubectl.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            if name in urls:
                document = webhook.configuration(
                    ours, name, {"matchLabels": {"kubernetes.io/metadata.name": name}}
                )
                del document["webhooks"][1:]
                document["webhooks"][0]["clientConfig"]["url"] = urls[name]
                stack.enter_context(webhook.register(plane.kubectl.in_namespace(name), document))
        yield [NONE, *urls]


def measure(plane: ControlPlane, program: Path, names: list[str], clients: int, rounds: int) -> Measurement:
    """Returns the times of blocks of creates in all namespaces. The first round is not measured."""
    file, creates, job = plane.folder / "job.json", CREATES[clients], plain_job("NAME")
    del job["metadata"]["namespace"]
    file.write_text(json.dumps(job), encoding="utf-8")
    env = {"TOKEN": json.loads(plane.kubeconfig.read_text())["users"][0]["user"]["token"]}
    times, used = {name: list[list[int]]() for name in names}, Counter[str]()
    for number in range(rounds + 1):
        for name in random.sample(names, len(names)):
            url = f"{plane.server}/apis/kubeflow.org/v2beta1/namespaces/{name}/mpijobs"
            command = [program, "create", plane.folder / "credentials/ca.crt", file, url, clients, creates]
            before = cpu(plane).total()
            result = subprocess.run(list(map(str, command)), env=env, check=True, stdout=subprocess.PIPE)
            if number:
                used[name] += cpu(plane).total() - before
                times[name].append([int(line) for line in result.stdout.split()])
            plane.kubectl.in_namespace(name).delete("mpijobs")
        say(f"{clients} clients: round {number} of {rounds}")
    return times, used


def added_milliseconds(times: Times, name: str, part: slice = slice(None)) -> float:
    """Returns the median of the milliseconds that a webhook adds to the median create of a round."""
    pairs = zip(times[name][part], times[NONE][part], strict=True)
    return (
        statistics.median(statistics.median(creates) - statistics.median(bare) for creates, bare in pairs)
        / 1000
    )


def table_lines(times: Times, used: Counter[str], clients: int) -> Iterator[str]:
    """Yields the lines of a table; ``per fifth`` has the lowest and highest ratio in fifths of the rounds."""
    yield "\n| clients | webhook | create, ms | added, ms | ours / it | per fifth | CPU, ms | ours / it |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    parts = [slice(part, None, 5) for part in range(5)]
    creates = clients * (CREATES[clients] + 1) * len(times[NONE])
    spent = {name: (used[name] - used[NONE]) * 10 / creates for name in times}
    for name, time in times.items():
        row = f"| {clients} | {name} | {statistics.median(itertools.chain(*time)) / 1000:.2f} |"
        if name == NONE:
            yield f"{row} | | | | |"
            continue
        ratios = [
            added_milliseconds(times, OURS, part) / added_milliseconds(times, name, part)
            for part in (slice(None), *parts)
        ]
        row += f" {added_milliseconds(times, name):.2f}"
        row += f" | {ratios[0]:.2f} | {min(ratios):.2f} to {max(ratios):.2f} |"
        yield f"{row} {spent[name]:.2f} | {spent[OURS] / spent[name]:.2f} |"


def main() -> None:
    """Measures, and prints the tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.admission", description=__doc__)
    parser.add_argument("--before", default="cb0109a", help="the earlier commit whose patch Go also answers")
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ultraserver-bench-") as name:
        folder, program = Path(name), Path(name) / "admission"
        before = Source(options.before, options.before).export(folder / "before")
        patches = [
            write_patch(webhook.REPOSITORY, folder / "go-now"),
            write_patch(before, folder / "go-before"),
        ]
        source = str(Path(__file__).with_name("main.go"))
        golang.find_toolchain(folder / "go", say).output("build", "-o", str(program), source, folder=folder)
        with (
            Storage(folder / "plane", say=say) as plane,
            register_webhooks(plane, folder / "certificates", program, patches) as names,
        ):
            for clients in CREATES:
                result = measure(plane, program, names, clients, options.rounds)
                say("\n".join(table_lines(*result, clients)))


if __name__ == "__main__":
    main()
