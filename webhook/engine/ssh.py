"""Finds how a launcher's mpirun calls ssh, because the init script must reach the workers in the same way."""

import re
import shlex
from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from webhook.objects.tree import Json, get_maps, shown
from webhook.rows.placeholders import ABSENT

OPTIONS: Final = {
    **{
        f"plm_{name}_{key}": f"OMPI_MCA_plm_rsh_{key}" for name in ("rsh", "ssh") for key in ("args", "agent")
    },
    "launcher-exec": "HYDRA_LAUNCHER_EXEC",
    "bootstrap-exec": "I_MPI_HYDRA_BOOTSTRAP_EXEC",
    "bootstrap-exec-args": "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS",
}
"""The options of mpirun for ssh, each with the variable from which the init script reads the value."""

_VARIABLE: Final = r"(OMPI|PRTE)_MCA_plm_[rs]sh_(args|agent)|(HYDRA_LAUNCHER|I_MPI_HYDRA_BOOTSTRAP)_E[A-Z_]+"
_SETTING: Final = re.compile(rf"{'|'.join(OPTIONS)}|{_VARIABLE}|[./]ssh/config|ssh_config")
_SETTING_PARTS: Final = ("ssh", "plm_", "HYDRA_", "-exec")
_LISTS: Final = frozenset({"env", "envFrom", "volumeMounts"})

LONGEST_COMMAND: Final = 1 << 14
"""Maximum number of characters of a shell command that are parsed, from its beginning."""


def read_ssh(container: Mapping[str, Json]) -> Mapping[str, Json]:
    """Returns a container's settings for ssh, as values of placeholders; empty if it has no such settings.

    `sshEnv` has the container's variables, and then a variable for each ssh option in the command.
    `sshUnclear` is the part of the command that cannot be read; missing if there is no such part.
    """
    words = [word for key in ("command", "args") for word in read_texts(container.get(key))]
    text = "\n".join(words)
    # Every match of `_SETTING` contains one of these parts. A search for `_SETTING` takes ten times as long.
    if _LISTS.isdisjoint(container) and not any(map(text.__contains__, _SETTING_PARTS)):
        return {}
    # If a name occurs twice, the kubelet uses the last variable.
    env = {str(item.get("name")): item for item in get_maps(container, ("env",))}
    env_from, mounts = (list(get_maps(container, (key,))) for key in ("envFrom", "volumeMounts"))
    has_ssh_mount = any("ssh" in str(mount.get("mountPath")) for mount in mounts)
    if not (env_from or has_ssh_mount or _SETTING.search("\n".join([text, *env]))):
        return {}
    tokens, unclear_text = [""], ""
    for word in words:
        is_shell_command = (
            not word.startswith("-") and tokens[-1].lstrip("-") not in OPTIONS and re.search(r"\s", word)
        )
        if not (is_shell_command and _SETTING.search(word)):
            tokens.append(word)
            continue
        try:
            tokens += shlex.split(word[:LONGEST_COMMAND].replace("\\\n", " "))
        except ValueError:
            unclear_text = word
        # A command that writes a file such as ~/.ssh/config can change how ssh connects.
        redirect_targets = (target.split(maxsplit=1)[:1] for target in word.split(">")[1:])
        if len(word) > LONGEST_COMMAND or any("ssh" in path for paths in redirect_targets for path in paths):
            unclear_text = word
    for token, next_token in pairwise([*tokens, ""]):
        name, equals, value = token.partition("=")
        name, value = OPTIONS.get(name.lstrip("-"), name * bool(equals)), value if equals else next_token
        if not re.fullmatch(_VARIABLE, name):
            continue
        # The kubelet replaces $(NAME) by the variable's value. What a shell would replace is unclear.
        if re.search(r"[$`]", re.sub(r"\$\((\w+)\)", lambda match: match[0] * (match[1] not in env), value)):
            unclear_text = f"{token} {value}"
        else:
            env.pop(name, None)
            env[name] = {"name": name, "value": value}
    lists = {"sshEnv": [*env.values()], "sshEnvFrom": env_from, "sshMounts": mounts}
    values: dict[str, Json] = {name: items or ABSENT for name, items in lists.items()}
    return values | ({"sshUnclear": shown(unclear_text)} if unclear_text else {})


def read_texts(words: Json) -> list[str]:
    """Returns the texts in a list; an empty list if the value is not a list."""
    return [word for word in words if isinstance(word, str)] if isinstance(words, list) else []
