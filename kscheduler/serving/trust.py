"""Provides the certificate authorities for client certificates: from files, or else those the cluster publishes.

kube-apiserver publishes its authorities, and the header names of its front proxy, in the ConfigMap
kube-system/extension-apiserver-authentication. Files are read again every minute and the ConfigMap is watched, so that
rotated authorities need no restart. If a changed file or ConfigMap is missing or broken, the previous authorities are
kept.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence

from cryptography import x509

from kscheduler.api.objects import ConfigMap
from kscheduler.client.concurrency import cancel_and_wait, within
from kscheduler.client.informer import Informer
from kscheduler.client.kinds import CONFIG_MAPS
from kscheduler.client.outages import Outages
from kscheduler.client.protocol import Client
from kscheduler.clock import Clock
from kscheduler.errors import APIError, ConfigError, DecodeError, Forbidden
from kscheduler.input.decoding import json_decoder
from kscheduler.input.input_files import read_file
from kscheduler.serving.authentication import FrontProxies
from kscheduler.serving.authorities import Authorities
from kscheduler.serving.options import AuthenticationOptions
from kscheduler.serving.request_headers import HeaderNames

log = logging.getLogger(__name__)

NAMESPACE, NAME = "kube-system", "extension-apiserver-authentication"
ROLE = "extension-apiserver-authentication-reader"
RELOAD_S = 60.0  # seconds between reads of the files
LOOKUP_TIMEOUT_S = 10.0

_decode_strings = json_decoder(tuple[str, ...] | None)
_CLIENTS, _PROXIES = "client-ca-file", "requestheader-client-ca-file"  # keys of the ConfigMap


class EndpointTrust:
    """Keeps the certificate authorities up to date. Call `start` before the first request and `stop` after the last."""

    def __init__(
        self,
        options: AuthenticationOptions,
        client: Client,
        clock: Clock,
        rng: random.Random,
        *,
        outages: Outages | None = None,
        on_change: Callable[[Sequence[x509.Certificate]], None],
    ) -> None:
        """Read the files. Raises ConfigError for a file that cannot be used.

        `client` reads the ConfigMap, and its informers share `outages`. `on_change` is called with all authorities each
        time they change.
        """
        given = options.request_header
        self._options = options
        self._client = client
        self._clock = clock
        self._rng = rng
        self._outages = outages
        self._on_change = on_change
        self._bundles: dict[str, Authorities] = {}  # key of the ConfigMap -> the authorities in force
        self._texts: dict[str, bytes] = {}  # key of the ConfigMap -> the same authorities as PEM
        self._files = {
            key: path for key, path in ((_CLIENTS, options.client_ca_file), (_PROXIES, given.client_ca_file)) if path
        }
        self._headers = HeaderNames(
            given.username_headers, given.uid_headers, given.group_headers, given.extra_header_prefixes
        )
        self._allowed_names = given.allowed_names
        self._looked_up = [key for key in (_CLIENTS, _PROXIES) if key not in self._files and not options.skip_lookup]
        if _PROXIES not in self._files:
            self._headers, self._allowed_names = HeaderNames(), ()  # as the cluster has them
        self._applied: dict[str, str] | None = None  # the data of the ConfigMap as it was read last
        self._known = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        for key, path in self._files.items():
            self._read_file(key, path)
        if not self._looked_up:
            self._known.set()

    @property
    def clients(self) -> Authorities | None:
        """The authorities of client certificates that prove a user; None if there are none."""
        return self._bundles.get(_CLIENTS)

    @property
    def front_proxies(self) -> FrontProxies | None:
        authorities = self._bundles.get(_PROXIES)
        return None if authorities is None else FrontProxies(authorities, self._headers, self._allowed_names)

    async def wait_known(self) -> None:
        await self._known.wait()

    async def start(self) -> None:
        """Start to watch the files and the ConfigMap for changes.

        Raises ConfigError if the ConfigMap cannot be read and `--authentication-tolerate-lookup-failure=false`.
        """
        self._announce()
        if self._looked_up and not self._options.tolerate_lookup_failure:
            try:
                await self._look_up()
            except APIError as error:
                raise ConfigError(f"unable to load configmap based request-header-client-ca-file: {error}") from error
        if self._looked_up:
            self._tasks.append(asyncio.ensure_future(self._follow_cluster()))
        if self._files:
            self._tasks.append(asyncio.ensure_future(self._follow_files()))

    async def stop(self) -> None:
        tasks, self._tasks = self._tasks, []
        await cancel_and_wait(*tasks)

    # --- files ---

    def _read_file(self, key: str, path: str) -> bool:
        """Read one file; return True if its authorities have changed. Raises ConfigError if it cannot be used."""
        flag = f"--{key}"
        try:
            text = read_file(path)
        except OSError as error:
            raise ConfigError(f"{flag} {path}: cannot be read: {error.strerror or error}") from error
        try:
            return self._use(key, text)
        except ValueError as error:
            raise ConfigError(f"{flag} {path}: expected PEM certificates of authorities: {error}") from error

    async def _follow_files(self) -> None:
        failed = ""
        while True:
            await asyncio.sleep(RELOAD_S)
            faults = []
            for key, path in self._files.items():
                try:
                    if self._read_file(key, path):
                        log.info("client certificates are verified with a renewed file", extra={"file": path})
                        self._announce()
                except ConfigError as error:
                    faults.append(str(error))
            if faults and str(faults) != failed:
                log.warning("renewed authorities cannot be used; the old ones stay in force", extra={"err": faults})
            failed = str(faults)

    # --- the cluster ---

    async def _look_up(self) -> None:
        """Read the ConfigMap once; it is no error if it does not exist. Raises APIError."""
        try:
            page = await within(
                LOOKUP_TIMEOUT_S,
                self._client.list_page(CONFIG_MAPS.within(NAMESPACE), field_selector=f"metadata.name={NAME}", limit=1),
            )
        except TimeoutError as error:
            raise APIError(f"no answer within {LOOKUP_TIMEOUT_S:g} s") from error
        for config_map in page.items:
            self._apply(config_map)
        self._known.set()

    async def _follow_cluster(self) -> None:
        """Read the ConfigMap, then watch it, until cancelled."""
        if not self._known.is_set():
            try:
                await self._look_up()
            except APIError as error:
                if isinstance(error, Forbidden):
                    log.warning(
                        "Unable to get configmap/%s in %s.  Usually fixed by 'kubectl create rolebinding -n %s "
                        "ROLEBINDING_NAME --role=%s --serviceaccount=YOUR_NS:YOUR_SA'",
                        *(NAME, NAMESPACE, NAMESPACE, ROLE),
                    )
                log.warning(
                    "Error looking up in-cluster authentication configuration: no client certificate counts until it "
                    "can be read",
                    extra={"err": error},
                )
            self._known.set()
        await Informer(
            self._client,
            CONFIG_MAPS.within(NAMESPACE),
            self,
            clock=self._clock,
            rng=self._rng,
            field_selector=f"metadata.name={NAME}",
            outages=self._outages,
        ).run()

    def on_add(self, obj: ConfigMap) -> None:
        self._apply(obj)

    def on_update(self, old: ConfigMap, new: ConfigMap) -> None:
        self._apply(new)

    def on_delete(self, obj: ConfigMap) -> None:
        """Keep the last authorities: an apiserver writes the ConfigMap again when it starts."""

    def _apply(self, config_map: ConfigMap) -> None:
        if config_map.data == self._applied:  # as at the start, where it is read and then listed to be watched
            return
        self._applied = config_map.data
        changed = False
        for key in self._looked_up:
            text = config_map.data.get(key, "")
            if not text:
                log.warning("missing content for CA bundle", extra={"config_map": config_map.key, "key": key})
                continue
            try:
                changed |= self._use(key, text.encode())
            except ValueError as error:
                log.warning("error loading CA bundle", extra={"config_map": config_map.key, "key": key, "err": error})
        if _PROXIES in self._looked_up:
            try:
                self._headers, self._allowed_names = _headers_of(config_map)
            except DecodeError as error:
                log.warning("request headers cannot be read", extra={"config_map": config_map.key, "err": error})
        if changed:
            log.info("client certificates are verified with what the cluster publishes")
            self._announce()

    # --- both ---

    def _use(self, key: str, text: bytes) -> bool:
        """Use the authorities of a PEM bundle; return True if it is new.

        Raises ValueError, changing nothing, if it is invalid.
        """
        if self._texts.get(key) == text:
            return False
        self._bundles[key] = Authorities(text)
        self._texts[key] = text
        return True

    def _announce(self) -> None:
        self._on_change([one for bundle in self._bundles.values() for one in bundle.certificates])


def _headers_of(config_map: ConfigMap) -> tuple[HeaderNames, tuple[str, ...]]:
    """Return the header names of front proxies, and the common names that such a proxy may have. Raises DecodeError."""

    def strings(key: str) -> tuple[str, ...]:
        text = config_map.data.get(key, "")
        return _decode_strings(text.encode()) or () if text else ()

    names = HeaderNames(
        strings("requestheader-username-headers"),
        strings("requestheader-uid-headers"),
        strings("requestheader-group-headers"),
        strings("requestheader-extra-headers-prefix"),
    )
    return names, strings("requestheader-allowed-names")
