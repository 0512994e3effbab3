"""Imports the authentication part of kubernetes-asyncio without its 900 generated models.

A plain import of `kubernetes_asyncio.config` runs package files that import every model, which takes 1.1 s and 73 MB,
although nothing of it is used here. So this module puts stand-ins in place of the library's three packages while it
loads the few modules needed (0.1 s, 2 MB), and removes the stand-ins afterwards, so that a later import of the library
gets all of it. If a release of the library moves these modules, the plain import is the fallback.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

log = logging.getLogger(__name__)

_PACKAGE = "kubernetes_asyncio"


@dataclass(frozen=True, slots=True)
class AuthLibrary:
    """The parts of kubernetes-asyncio that this program uses. They have no type annotations."""

    configuration: Any  # client.configuration.Configuration
    kubeconfig_loader: Any  # config.kube_config.KubeConfigLoader
    kubeconfig_merger: Any  # config.kube_config.KubeConfigMerger
    in_cluster_loader: Any  # config.incluster_config.InClusterConfigLoader
    error: type[Exception]  # config.config_exception.ConfigException


@functools.cache
def auth_library() -> AuthLibrary:
    """Load the library on first use, which takes about 0.1 s, and return it."""
    if _PACKAGE in sys.modules:  # imported in full by someone else already
        return _collect()
    try:
        with _without_package_files():
            return _collect()
    except (ImportError, AttributeError) as error:
        log.debug("the lean import of kubernetes-asyncio failed, importing all of it", extra={"err": str(error)})
        return _collect()


def _collect() -> AuthLibrary:
    # Its log repeats what plugins write to stderr, which may hold credentials; all that it logs it raises as well,
    # but for an answer of a plugin without a token or certificate, which the caller looks for.
    logging.getLogger(_PACKAGE).setLevel(logging.CRITICAL + 1)
    configuration = importlib.import_module(f"{_PACKAGE}.client.configuration")
    if isinstance(shell := sys.modules[f"{_PACKAGE}.client"], _Shell):
        shell.Configuration, shell.ApiClient = configuration.Configuration, None
    kube_config = importlib.import_module(f"{_PACKAGE}.config.kube_config")
    in_cluster = importlib.import_module(f"{_PACKAGE}.config.incluster_config")
    return AuthLibrary(
        configuration.Configuration,
        kube_config.KubeConfigLoader,
        kube_config.KubeConfigMerger,
        in_cluster.InClusterConfigLoader,
        kube_config.ConfigException,
    )


class _Shell(ModuleType):
    """An empty stand-in for a package of the library, with a search path and the names that its modules import."""

    Configuration: Any
    ApiClient: Any


@contextmanager
def _without_package_files() -> Iterator[None]:
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"{_PACKAGE} is not installed")
    root = spec.submodule_search_locations[0]
    for part in ("", ".client", ".config"):
        shell = _Shell(_PACKAGE + part)
        shell.__path__ = [root + part.replace(".", "/")]
        sys.modules[_PACKAGE + part] = shell
    try:
        yield
    finally:
        for name in [name for name in sys.modules if name == _PACKAGE or name.startswith(_PACKAGE + ".")]:
            del sys.modules[name]
