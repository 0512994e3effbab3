"""Custom kinds of a real apiserver: taken away so that they can be made again at once."""

from __future__ import annotations

from kscheduler.testing.controlplane import RequestFailed
from kscheduler.testing.controlplane.api import Api
from kscheduler.testing.controlplane.patience import eventually

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def remove_kind(api: Api, name: str) -> None:
    """Delete the definition `plural.group` with all its objects, if it is there, and wait until it is gone.

    The apiserver marks a definition as deleted, removes its objects, and then the definition. One that is applied
    meanwhile changes the old one and vanishes with it.
    """
    api.delete(f"{DEFINITIONS}/{name}", missing_ok=True)
    eventually(lambda: not _is_there(api, name), f"the kind {name} is gone")


def _is_there(api: Api, name: str) -> bool:
    try:
        api.get(f"{DEFINITIONS}/{name}")
    except RequestFailed as error:
        if error.status == 404:
            return False
        raise
    return True
