"""Checks a kubeconfig before it is used, and reports which file and field is wrong, and why.

Only the file's structure is checked here; kubernetes-asyncio reads tokens and certificates. As in kubectl, several
files may be joined by colons: of entries with equal names the first counts, and so does the first current-context.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kscheduler.client.urls import is_http
from kscheduler.errors import ConfigError, DecodeError
from kscheduler.input.input_files import read_file
from kscheduler.input.redaction import SecretURL, hide_parts, hide_urls
from kscheduler.input.yaml_documents import read_one_yaml

MAX_BYTES = 1 << 24  # kubectl writes some hundred bytes for each cluster
_SECTIONS = {"clusters": "cluster", "users": "user", "contexts": "context"}  # section -> what each entry holds


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """The chosen context of one or more kubeconfig files; every entry that it names exists."""

    paths: str  # the files that exist, joined by colons
    context: str
    cluster: dict[str, Any] = field(repr=False)
    user: dict[str, Any] = field(repr=False)  # empty for an anonymous context
    cluster_name: str
    user_name: str

    @classmethod
    def read(cls, paths: str, context: str = "") -> Kubeconfig:
        """Read the files and choose a context. Raises ConfigError, which names file and field."""
        files = {path: _load(path) for path in _existing(paths)}
        shown = os.pathsep.join(files)
        entries = {section: _merge(files, section) for section in _SECTIONS}
        name = context or next((str(c) for file in files.values() if (c := file.get("current-context"))), "")
        if not name:
            known = _names(entries["contexts"])
            raise ConfigError(f"kubeconfig {shown}: current-context: not set, expected one of {known}")
        chosen = _entry(entries, "contexts", name, f"{shown}: {'--context' if context else 'current-context'}")
        field = f"{shown}: contexts[{name}].context"
        cluster_name, user_name = str(chosen.get("cluster") or ""), str(chosen.get("user") or "")
        if not cluster_name:
            raise ConfigError(f"kubeconfig {field}.cluster: not set")
        cluster = _entry(entries, "clusters", cluster_name, f"{field}.cluster")
        user = _entry(entries, "users", user_name, f"{field}.user") if user_name else {}
        checked = cls(shown, name, cluster, user, cluster_name, user_name)
        checked._check_cluster()
        checked._check_user()
        return checked

    @property
    def first_path(self) -> str:
        return self.paths.split(os.pathsep)[0]

    def where(self, field: str) -> str:
        """Return file and path of a field, for messages: `kubeconfig /x: users[me].user.token`."""
        if not field:
            return f"kubeconfig {self.paths}: context {self.context}"
        if field in ("server", "certificate-authority", "certificate-authority-data", "proxy-url"):
            return f"kubeconfig {self.paths}: clusters[{self.cluster_name}].cluster.{field}"
        return f"kubeconfig {self.paths}: users[{self.user_name}].user.{field}"

    def hide_in(self, text: str) -> str:
        """Return a message of the authentication library without any value of the user's entry, except file names."""
        return hide_urls(hide_parts(text, _texts_in(self.user)))

    def _check_cluster(self) -> None:
        server = self.cluster.get("server")
        if not isinstance(server, str) or not server:
            raise ConfigError(f"{self.where('server')}: not set, expected a URL such as https://host:6443")
        url = SecretURL(server)
        if not is_http(url):
            raise ConfigError(f"{self.where('server')}: expected a URL such as https://host:6443, got {url.quoted}")
        self._check_base64(self.cluster, "certificate-authority-data")
        self._check_file(self.cluster, "certificate-authority")

    def _check_user(self) -> None:
        for part in ("client-certificate", "client-key"):
            self._check_base64(self.user, f"{part}-data")
            self._check_file(self.user, part)
        self._check_file(self.user, "tokenFile")
        has_certificate = bool(self.user.keys() & {"client-certificate", "client-certificate-data"})
        if has_certificate and not self.user.keys() & {"client-key", "client-key-data"}:
            raise ConfigError(f"{self.where('client-key')}: not set, but client-certificate is")

    def _check_base64(self, entry: dict[str, Any], field: str) -> None:
        if field not in entry:
            return
        try:
            base64.b64decode("".join(str(entry[field]).split()), validate=True)
        except (binascii.Error, ValueError) as error:
            raise ConfigError(f"{self.where(field)}: not base64: {error}") from error

    def _check_file(self, entry: dict[str, Any], field: str) -> None:
        """Raise ConfigError unless the file that this field names exists, relative to one of the kubeconfigs."""
        if field not in entry or f"{field}-data" in entry:
            return
        named = os.path.expanduser(str(entry[field]))
        if not any((Path(path).absolute().parent / named).is_file() for path in self.paths.split(os.pathsep)):
            raise ConfigError(f"{self.where(field)}: no such file: {named}")


# Fields of a user's entry, and of what stands in it, that are no secrets.
_HARMLESS = frozenset(
    {"client-certificate", "client-key", "tokenFile", "command", "apiVersion", "interactiveMode", "name"}
)


def _texts_in(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key not in _HARMLESS:
                yield from _texts_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts_in(item)
    elif value is not None and not isinstance(value, bool) and str(value):
        yield str(value)


def _existing(paths: str) -> list[str]:
    wanted = [os.path.expanduser(path) for path in paths.split(os.pathsep) if path]
    found = [path for path in wanted if os.path.exists(path)]
    if not found:
        raise ConfigError(f"kubeconfig {paths}: no such file")
    return found


def _load(path: str) -> dict[str, Any]:
    try:
        document = read_one_yaml(read_file(path, MAX_BYTES)).value
    except OSError as error:
        raise ConfigError(f"kubeconfig {path}: cannot be read: {error.strerror}") from error
    except DecodeError as error:
        raise ConfigError(f"kubeconfig {path}: not valid YAML: {error}") from None
    if not isinstance(document, dict):
        got = _kind(document)
        raise ConfigError(f"kubeconfig {path}: expected a mapping with clusters, contexts and users, got {got}")
    for section in _SECTIONS:
        _check_section(path, section, document.get(section))
    return document


def _check_section(path: str, section: str, entries: object) -> None:
    if entries is None:
        return
    if not isinstance(entries, list):
        raise ConfigError(f"kubeconfig {path}: {section}: expected a list, got {_kind(entries)}")
    inner = _SECTIONS[section]
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise ConfigError(f"kubeconfig {path}: {section}[{index}].name: not set")
        if not isinstance(entry.get(inner), dict):
            if section == "users" and entry.get(inner) is None:  # kubectl writes this for an anonymous user
                entry[inner] = {}
                continue
            raise ConfigError(f"kubeconfig {path}: {section}[{entry['name']}].{inner}: expected a mapping")


def _merge(files: dict[str, dict[str, Any]], section: str) -> dict[str, dict[str, Any]]:
    merged: dict[str, dict[str, Any]] = {}  # name -> entry; the first file wins
    for document in files.values():
        for entry in document.get(section) or ():
            merged.setdefault(entry["name"], entry[_SECTIONS[section]])
    return merged


def _entry(entries: dict[str, dict[str, dict[str, Any]]], section: str, name: str, field: str) -> dict[str, Any]:
    if name not in entries[section]:
        raise ConfigError(f"kubeconfig {field}: {name!r} is not in {section}, which has {_names(entries[section])}")
    return entries[section][name]


def _names(entries: dict[str, dict[str, Any]]) -> str:
    return ", ".join(sorted(entries)) or "no entries"


def _kind(value: object) -> str:
    return "nothing" if value is None else type(value).__name__
