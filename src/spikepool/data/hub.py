"""A model of the Hugging Face hub, where it can be reached: safetensors only, never code."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from spikepool.data.formats import PICKLE_REMEDY
from spikepool.data.formats.safetensors import shard_of_table
from spikepool.errors import InvalidInputError, SpikepoolError, UnsafeFormatError, require


class HubUnreachableError(SpikepoolError, OSError):
    """The model hub could not be reached, or does not have the model."""


def download(model_id: str) -> Path:
    """Local path of the safetensors file (or its index, with the needed shard) of `model_id`.

    Only files of plain data are asked for; the configuration and the code of the model are left alone.
    """
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", model_id):
        raise InvalidInputError("this is not a model id", model_id, "Use owner/name")
    hub = require("huggingface_hub", "hub")
    try:
        return Path(_fetch(hub, model_id))
    except SpikepoolError:
        raise
    except Exception as err:  # network, authentication and cache errors have no common base
        reason = (str(err).strip() or type(err).__name__).splitlines()[0]
        raise HubUnreachableError(
            f"{model_id!r} is not a file here, and the hub could not provide it: {reason}",
            remedy="Check the path or the network, or download model.safetensors yourself and pass that file",
        ) from err


def _fetch(hub: Any, model_id: str) -> str:
    cached = hub.try_to_load_from_cache(model_id, "model.safetensors")
    if isinstance(cached, str):
        return cached
    _check_reachable(hub)
    names = hub.list_repo_files(model_id)
    get = hub.hf_hub_download
    if "model.safetensors" in names:
        return str(get(model_id, "model.safetensors"))
    index = "model.safetensors.index.json"
    if index in names:
        path = Path(get(model_id, index))
        get(model_id, shard_of_table(path, None)[1])  # lands beside the index in the cache
        return str(path)
    raise UnsafeFormatError(
        f"{model_id!r} has no safetensors weights, only formats that run code when loaded", names[:8], PICKLE_REMEDY
    )


def _check_reachable(hub: Any) -> None:
    """Fail at once without a network: the package itself tries for half a minute, long for a mistyped path."""
    if not getproxies():  # behind a proxy names need not resolve here
        socket.getaddrinfo(urlsplit(hub.constants.ENDPOINT).hostname, 443)
