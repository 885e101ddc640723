"""Runs the two init containers and the program of the job in a fleet."""

from subprocess import CompletedProcess

from tests.initscript.stages import VARIABLE, Stage, command
from tests.plane.initscript.harness import Fleet
from webhook.initscript import text

OUT = "/root/ultraserver_init"
TIME_OVER = "/root/over"
# The bash of the container sources this function. When the file exists, the time of the script is over.
CLOCK = f'sleep() {{ [[ ! -e {TIME_OVER} ]] || SECONDS=$limit; command sleep "$@"; }}'
# Each rank writes its line at once, so that lines of ranks cannot mix.
VALUES = '$(env | grep -E "^NEURON_(GLOBAL|RT)_")'
PRINT_RANK = f'echo "$(printf "%s|" RANK=${{OMPI_COMM_WORLD_RANK-$PMI_RANK}} HOST=$(hostname) {VALUES})"'


def settings(fleet: Fleet, **variables: str) -> dict[str, str]:
    """Returns the environment that the webhook gives the init containers."""
    return {
        "NEURON_ULTRASERVER_NODE_CONFIG": "4",
        "ULTRASERVER_WORKERS": str(len(fleet.workers)),
        "ULTRASERVER_WAIT_SECONDS": "90",
        VARIABLE: text(),
        **variables,
    }


def container(fleet: Fleet, stage: Stage, **variables: str) -> CompletedProcess[str]:
    """Runs an init container in the launcher."""
    return fleet.run(command(stage), settings(fleet, **variables))


def errors_of(output: str) -> list[str]:
    """Returns the lines of an output, from the first error on."""
    return output[output.index("ERROR: ") :].splitlines()


def wait_until_timeout(fleet: Fleet, after: str, **variables: str) -> tuple[list[str], list[str]]:
    """Runs the container that waits, and ends its time when it prints a certain line.

    So the result does not depend on the speed of the machine.

    Args:
        fleet: The fleet.
        after: The text that this line contains.
        variables: Further variables of the container.

    Returns:
        The lines before the first error, and the lines from the first error on.
    """
    fleet.write(fleet.launcher, "/root/clock", CLOCK)
    run = fleet.spawn(command("wait"), settings(fleet, BASH_ENV="/root/clock", **variables))
    assert run.stdout is not None
    lines = []
    while after not in (line := run.stdout.readline()):
        assert line, lines
        lines.append(line.rstrip())
    fleet.write(fleet.launcher, TIME_OVER, "")
    printed, _ = run.communicate(timeout=60)
    assert run.returncode == 1, printed
    lines += [line.rstrip(), *printed.splitlines()]
    first = next(number for number, line in enumerate(lines) if line.startswith("ERROR: "))
    return lines[:first], lines[first:]


def mpirun(fleet: Fleet, env: dict[str, str] | None = None, *arguments: str) -> list[dict[str, str]]:
    """Runs a program with mpirun that prints the host and the variables of each rank.

    Args:
        fleet: The fleet.
        env: Further variables of the main container, in addition to the variables from mpi-operator.
        arguments: The arguments of mpirun.

    Returns:
        The variables of each rank, and its host as ``HOST``, sorted by rank.
    """
    operator_env = {
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
        "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    return run_ranks(fleet, ["mpirun", *arguments], {**operator_env, **(env or {})})


def hydra(fleet: Fleet, ranks: int, hostfile: str) -> list[dict[str, str]]:
    """Does the same as `mpirun` with ``mpiexec.hydra`` of MPICH, which Intel MPI also uses.

    Args:
        fleet: The fleet.
        ranks: The number of ranks.
        hostfile: The value of HYDRA_HOST_FILE.

    Returns:
        The variables of each rank, and its host as ``HOST``, sorted by rank.
    """
    return run_ranks(fleet, ["mpiexec.hydra", "-n", str(ranks)], {"HYDRA_HOST_FILE": hostfile})


def run_ranks(fleet: Fleet, starter: list[str], env: dict[str, str]) -> list[dict[str, str]]:
    """Runs the program that prints the host and the variables of each rank, and returns them by rank."""
    done = fleet.run([*starter, "sh", "-c", PRINT_RANK], env)
    assert not done.returncode, done.stderr
    rows = [line.strip("|").split("|") for line in done.stdout.splitlines() if line.startswith("RANK=")]
    ranks = [dict(pair.split("=", 1) for pair in pairs) for pairs in rows]
    return sorted(ranks, key=lambda rank: int(rank.pop("RANK")))
