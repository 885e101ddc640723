"""Tests that each MPI reads only its own hostfile variable, so that one row can set all variables."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from webhook.rules.load import load_default

pytestmark = pytest.mark.fleet

VARIABLE_OF = {"mpirun.openmpi": "OMPI_MCA_orte_default_hostfile", "mpiexec.hydra": "HYDRA_HOST_FILE"}
"""The program that starts the ranks of each MPI, and the hostfile variable that this program reads."""

TRIES = 5
"""Tries are repeated, because SIGPIPE sometimes ends ``mpiexec.hydra`` if the rank ends at once."""

VARIABLES = {
    item["name"]
    for rule in load_default().rules
    if rule.name in {"hostfile", "hostfile-open-mpi-5"}
    for container in rule.add["spec"]["containers"]
    for item in container["env"]
}


def launch(program: str, variables: set[str], missing: Path) -> int:
    """Returns the exit status of such a program if variables have the path of a file that does not exist."""
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    environment = {**os.environ, **as_root, **dict.fromkeys(variables, str(missing))}
    for _ in range(TRIES):
        done = subprocess.run(
            [program, "-np", "1", "true"], env=environment, capture_output=True, check=False
        )
        if done.returncode != -signal.SIGPIPE:
            return done.returncode
    return -signal.SIGPIPE


def test_the_packaged_rows_set_a_variable_for_every_mpi() -> None:
    assert set(VARIABLE_OF.values()) < VARIABLES


@pytest.mark.parametrize("program", VARIABLE_OF)
def test_an_mpi_ignores_the_variables_of_other_mpis(program: str, tmp_path: Path) -> None:
    assert launch(program, VARIABLES - {VARIABLE_OF[program]}, tmp_path / "missing") == 0


@pytest.mark.parametrize("program", VARIABLE_OF)
def test_an_mpi_reads_its_own_variable(program: str, tmp_path: Path) -> None:
    assert launch(program, {VARIABLE_OF[program]}, tmp_path / "missing") != 0
