"""The texts about calls and watches of the API server, for errors and for `Mirror.stale_reason`."""

from typing import Final

unreachable: Final = "cannot reach the API server: {}".format
no_server: Final = unreachable("{} (outside a pod, name a --kubeconfig)").format
_INSTALL: Final = "pip install 'ultraserver-webhook[controllers]'"
not_installed: Final = f"{{}}: the client of the API server is not installed: {_INSTALL}".format
_REPLACE: Final = "replace it in the kubeconfig or the service account's token file"
_NO_HEADER: Final = "a line end or another character that an HTTP header cannot have"
BAD_TOKEN: Final = f"the bearer token has {_NO_HEADER}: {_REPLACE}"
NOT_SERVED: Final = "it is not served"
not_an_object: Final = "not a JSON object but {}".format
WATCH_ENDED: Final = "the watch has ended"
not_watched: Final = "{} is no longer watched".format
