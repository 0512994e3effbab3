"""A secret planted in every field that can hold one is in nothing that the program emits."""

from __future__ import annotations

import copy
import io
import json
import logging
import pickle
import re
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from kscheduler.client.kube import KubeClient
from kscheduler.command.cli import main
from kscheduler.config.dump import to_v1, to_yaml
from kscheduler.config.load import decode_config, parse_config
from kscheduler.config.plugin_args import OWN_ARGS
from kscheduler.config.routing import RoutingConfig
from kscheduler.config.types import ConfigStruct, Extender, SchedulerConfig
from kscheduler.errors import ConfigError, KSchedulerError
from kscheduler.extenders.webhook import Webhook
from kscheduler.input.redaction import Secret, SecretURL
from kscheduler.observability import logs
from kscheduler.simulator.blocking_webhook import BlockingWebhook
from kscheduler.wasm.arguments import WasmArguments
from tests.support.canaries import Canaries, planted, replaced_one_by_one, structs_below, text_fields, web_server
from tests.support.clocks import ManualClock
from tests.support.emitted import emitted_about_a_pod
from tests.support.world import in_virtual_time

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
pytestmark = pytest.mark.usefixtures("logging_restored")


# --- every field ----------------------------------------------------------------------------------------------------

SECRET_NAME = re.compile("ur[il]|token|passw|secret|header|key|address|credential|username|proxy|cookie|config$")
NO_SECRETS = {  # fields whose names look as if they could hold one, and why they cannot
    "kubeconfig": "the path of a file",
    "bind_address": "where this program listens",
    "key": "of a label",
    "topology_key": "of a label",
    "match_label_keys": "of labels",
}


def test_a_text_whose_name_speaks_of_a_secret_has_the_type_of_one() -> None:
    seen = set()
    # Of the program's own: other tests define further ones, and may have run before.
    own = {kind for kind in structs_below(ConfigStruct) if kind.__module__.startswith("kscheduler.")}
    kinds: set[type] = {*own, RoutingConfig, WasmArguments}
    for kind in kinds:
        for name in text_fields(kind):
            if SECRET_NAME.search(name) and not name.endswith(("_file", "_files")):
                seen.add(name)
                assert name in NO_SECRETS, f"{kind.__name__}.{name}: expected a Secret or a SecretURL, or a reason"
    assert seen == NO_SECRETS.keys()


def whole_configuration(canaries: Canaries) -> dict[str, Any]:
    """Each field of a secret's type, in all that a configuration is made of, and plugins from elsewhere."""
    document = planted(SchedulerConfig, canaries, "config")
    entries = [{"name": name, "args": planted(kind, canaries, name)} for name, kind in OWN_ARGS.items()]
    entries += [
        {
            "name": "Guest",
            "args": {
                "guestURL": canaries.url("guestURL"),
                "guestConfig": {"token": canaries.new("guestConfig")},
                "Args": [canaries.new("Args")],
            },
        },
        {
            "name": "Elsewhere",
            "args": {
                "password": canaries.new("password"),
                "deep": [{"apiToken": canaries.new("apiToken"), "headers": {"X": canaries.new("headers")}}],
                "endpoint": canaries.url("endpoint"),
                "note": f"see {canaries.url('note')}",
            },
        },
    ]
    return {**HEAD, **document, "profiles": [{"schedulerName": "a", "pluginConfig": entries}]}


def test_every_secret_field_is_planted() -> None:
    canaries = Canaries()
    whole_configuration(canaries)
    planted_at = " ".join(canaries.made.values())
    for expected in ("extenders[].urlPrefix", "keyData", "metricProvider.token", "prometheus.url", "headers[]"):
        assert expected in planted_at


def forms_of(value: Any) -> Iterator[str]:
    """All ways in which a value becomes text without being asked for its secret."""
    yield from (str(value), repr(value), f"{value}", f"{value!r}", f"{[value]}", "%s" % (value,))  # noqa: UP031
    yield msgspec.json.encode(value, enc_hook=str).decode()
    yield json.dumps({"x": value}, default=repr)
    for form in logs.LogFormat:
        stream = io.StringIO()
        logs.configure(form, 10, stream)
        log = logging.getLogger("kscheduler.canary")
        log.error("a %s", value, extra={"value": value, "nested": [{"value": value}]})
        try:
            raise ValueError(value, f"failed: {value}")
        except ValueError as error:
            log.exception("raised", extra={"err": error})
            found = traceback.TracebackException.from_exception(error, capture_locals=True)
            yield "".join(found.format())
        yield stream.getvalue()


def test_no_form_of_a_configuration_shows_a_secret() -> None:
    canaries = Canaries()
    config = decode_config(whole_configuration(canaries))
    pages = [to_yaml(config), json.dumps(to_v1(config)), repr(config), str(config)]
    parts: list[Any] = [*config.extenders, *(entry.args for entry in config.profiles[0].plugin_config[: len(OWN_ARGS)])]
    for text in (*pages, *(text for part in parts for text in forms_of(part))):
        assert not canaries.seen_in(text), text
    whole = to_yaml(config, with_secrets=True)
    assert len(canaries.seen_in(whole)) == len(canaries.made)


@pytest.mark.parametrize("secret", [Secret("C4n4ry"), SecretURL("https://C4n4ry:C4n4ry@h/x?C4n4ry#C4n4ry")])
def test_no_form_of_a_secret_shows_it(secret: Secret) -> None:
    for text in forms_of(secret):
        assert "C4n4ry" not in text
    assert copy.deepcopy(secret) == copy.copy(secret) == secret
    for write in (pickle.dumps, yaml.dump, yaml.safe_dump, msgspec.json.encode, json.dumps):
        with pytest.raises((TypeError, yaml.YAMLError)) as caught:
            write(secret)
        assert "C4n4ry" not in str(caught.value)


@pytest.mark.parametrize("form", list(logs.LogFormat))
def test_the_log_hides_what_a_library_wrote_of_a_url(form: logs.LogFormat) -> None:
    """As plain text, in the message, in a field and in the stack of an error: here no Secret hides itself."""
    stream = io.StringIO()
    logs.configure(form, 10, stream)
    url = "https://C4n4ry:C4n4ry@host/x?C4n4ry"
    log = logging.getLogger("kscheduler.canary")
    log.error("cannot connect to %s", url)
    log.error("a field", extra={"err": url})
    try:
        raise OSError(f"cannot connect to {url}")
    except OSError:
        log.exception("raised")
    lines = stream.getvalue()
    assert lines.count("https://<hidden>@host/x?<hidden>") >= 3
    assert "C4n4ry" not in lines, lines


@pytest.mark.parametrize("wrong", [123454321, 1234.54321, ["C4n4ry"], "http://C4n4ry:C4n4ry@h", {"C4n4ry": "C4n4ry"}])
def test_a_value_in_the_wrong_place_is_not_quoted(wrong: Any) -> None:
    for document in replaced_one_by_one(whole_configuration(Canaries()), wrong):
        found = fault_of(lambda: parse_config(json.dumps(document)))  # noqa: B023
        text = re.sub(r'unknown field "[^"]*"|[.]C4n4ry', "", found)  # names of fields are quoted
        assert not re.search("C4n4ry|1234.54321", text), (document, text)


URLS = [  # as people get them wrong; what may be seen at most is "host"
    "http://C4n4ry:C4n4ry@host:port/x",
    "http://C4n4ry:C4n/4ry@host/x",
    "http://C4n4ry/C4n4ry@host/x",
    "http://C4n4ry:C4n4ry?@host/x",
    "http://C4n4ry:C4n4ry#@host/x",
    "http://C4n4ry:C4n4ry@[host/x",
    "C4n4ry:C4n4ry@host:80/x",
    "C4n4ry@https://host/x?C4n4ry",
    "https:/C4n4ry:C4n4ry@host",
    "://C4n4ry:C4n4ry@host",
    "http://host?C4n4ry=C4n4ry",
    "http://host/ ?C4n4ry",
]


def fault_of(make: Callable[[], object]) -> str:
    """What is wrong, with all that led to it; "" if nothing is."""
    try:
        make()
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("url", URLS)
def test_a_url_that_is_wrong_is_shown_without_its_secret(url: str) -> None:
    assert "4ry" not in SecretURL(url).shown
    assert "4ry" not in str(SecretURL(url).hide_in(f"invalid: {url!r}"))
    extender = Extender(url_prefix=SecretURL(url))
    shown = [fault_of(lambda: Webhook(extender, "x")), fault_of(lambda: BlockingWebhook(extender, "x"))]
    for args in ({"prometheus": {"url": url}}, {"loadWatcher": {"url": url}}):
        entry = {"name": "MetricPolicy", "args": {"sources": [{"name": "s", **args}]}}
        profile = {"schedulerName": "a", "pluginConfig": [entry]}
        shown.append(fault_of(lambda: parse_config(json.dumps({**HEAD, "profiles": [profile]}))))  # noqa: B023
    assert "4ry" not in "".join(shown)


@pytest.mark.parametrize("url", URLS)
def test_a_url_on_the_command_line_is_shown_without_its_secret(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["explain", "p", "--server", url], ["plugin", "inspect", url]):
        if arguments[0] == "plugin" and ("://" not in url or url.startswith("://")):
            continue  # the path of a file
        main(arguments)
        assert "4ry" not in "".join(capsys.readouterr()), arguments


@pytest.mark.parametrize("url", URLS)
async def test_an_apiservers_url_that_is_wrong_is_shown_without_its_secret(url: str, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    user = {"name": "c", "user": {"token": "C4n4ry"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "c"}}
    for given, master in ((url, ""), ("http://127.0.0.1:1", url)):
        cluster = {"name": "c", "cluster": {"server": given}}
        document = {"current-context": "c", "clusters": [cluster], "contexts": [context], "users": [user]}
        kubeconfig.write_text(json.dumps(document))
        try:
            client = await KubeClient.connect(ManualClock(), kubeconfig=str(kubeconfig), server=master)
        except ConfigError as error:
            recorded = str(error)
        else:
            recorded = client.host
            await client.close()
        if not url.startswith("http://C4n4ry/"):  # a host, for all that anybody can see
            assert "4ry" not in recorded


@pytest.mark.parametrize(
    "text", ["a: !C4n4ry", "a: *C4n4ry", "a: !!C4n4ry x", "C4n4ry", "- C4n4ry", "a: [C4n4ry", "a: 'C4n4ry"]
)
def test_a_file_that_is_no_configuration_is_not_quoted(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "file"
    path.write_text(text)
    for arguments in (["config", "validate", str(path)], ["run", "--kubeconfig", str(path), "--secure-port=0"]):
        assert main([*arguments]) == 2
        out, err = capsys.readouterr()
        assert "C4n4ry" not in out + err


# --- the commands ---------------------------------------------------------------------------------------------------


def configuration_file(canaries: Canaries, directory: Path, extenders: list[dict[str, Any]]) -> Path:
    """One that is valid."""
    sources = [
        {
            "name": "p",
            "prometheus": {"url": "http://127.0.0.1:1", "headers": {"X-Key": canaries.new("headers")}},
        },
        {"name": "w", "loadWatcher": {"url": "http://127.0.0.1:1", "username": canaries.new("username")}},
    ]
    provider = {"type": "Prometheus", "address": "http://127.0.0.1:1", "token": canaries.new("token")}
    config = [
        {"name": "MetricPolicy", "args": {"sources": sources}},
        {"name": "TargetLoadPacking", "args": {"metricProvider": provider}},
        {"name": "Elsewhere", "args": {"password": canaries.new("password"), "url": canaries.url("url")}},
    ]
    document = {
        **HEAD,
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": "default-scheduler", "pluginConfig": config}],
        "extenders": extenders,
    }
    path = directory / "scheduler.yaml"
    path.write_text(json.dumps(document))
    return path


def emitted(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    main(arguments)
    return "".join(capsys.readouterr())


def test_commands_show_no_secret_but_those_that_are_asked_for_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    canaries = Canaries()
    extender = {"urlPrefix": canaries.url("urlPrefix"), "filterVerb": "f", "tlsConfig": {"insecure": True}}
    path = str(configuration_file(canaries, tmp_path, [extender]))
    shown = emitted(capsys, "config", "show", path, "--expanded")
    assert "<hidden>" in shown
    assert not canaries.seen_in(shown + emitted(capsys, "config", "validate", path))
    assert len(canaries.seen_in(emitted(capsys, "config", "show", path, "--secrets"))) == len(canaries.made)
    written = tmp_path / "written.yaml"
    text = emitted(capsys, "run", "--config", path, "-v=10", "--write-config-to", str(written))
    assert not canaries.seen_in(text)
    assert len(canaries.seen_in(written.read_text())) == len(canaries.made)
    assert emitted(capsys, "config", "show", str(written), "--secrets") == written.read_text()


def test_a_guest_that_cannot_be_had_is_named_without_its_secrets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    canaries = Canaries()
    cluster = tmp_path / "cluster.yaml"
    objects = [{"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}} for kind in ("Node", "Pod")]
    cluster.write_text("\n---\n".join(map(json.dumps, objects)))
    secret = canaries.new("guestConfig")
    with web_server() as server:
        for path in ("missing", "redirect", "loop", "cut"):
            url = canaries.url("guest", f"{server.url}/{path}")
            text = emitted(capsys, "plugin", "inspect", url)
            trial = ("plugin", "test", url, "--cluster", str(cluster), "--pod", str(cluster), "--guest-config", secret)
            text += emitted(capsys, *trial)
            assert "guestURL http://<hidden>@127.0.0.1" in text
            assert not canaries.seen_in(text), text
        assert all(request.startswith("Basic ") for request in server.logins)


# --- extenders, in a whole scheduler --------------------------------------------------------------------------------


@pytest.mark.parametrize("ignorable", [False, True])
@pytest.mark.parametrize("kind", ["ok", "failing", "echo", "garbage", "cut", "nobody"])
def test_extenders_do_not_give_their_secrets_away(kind: str, ignorable: bool) -> None:
    canaries = Canaries()
    stream = io.StringIO()
    texts: list[str] = []

    @in_virtual_time
    async def run(address: str) -> None:
        settings = {"filterVerb": "filter", "nodeCacheCapable": True, "ignorable": ignorable, "httpTimeout": "2s"}
        extender = {"urlPrefix": canaries.url("urlPrefix", address), **settings}
        config = parse_config(json.dumps({**HEAD, "extenders": [extender]}))
        logs.configure(verbosity=10, stream=stream)
        texts.extend(await emitted_about_a_pod(config))

    with web_server() as server:
        run("http://127.0.0.1:1/x" if kind == "nobody" else f"{server.url}/{kind}")
        if kind != "nobody":
            assert server.logins[0].startswith("Basic ")
    text = "\n".join([*texts, stream.getvalue()])
    assert "127.0.0.1" in text
    assert not canaries.seen_in(text), text
    assert not any(login.removeprefix("Basic ") in text for login in server.logins)


@pytest.mark.parametrize("kind", ["failing", "garbage", "cut", "redirect", "nobody"])
async def test_the_network_library_does_not_give_an_extenders_secrets_away(kind: str) -> None:
    canaries = Canaries()
    with web_server() as server:
        address = "http://127.0.0.1:1/x" if kind == "nobody" else f"{server.url}/{kind}"
        webhook = Webhook(Extender(url_prefix=SecretURL(canaries.url("urlPrefix", address))), "extenders[0]")
        if kind == "garbage":
            await webhook.ask("filter", b"{}")
        else:
            with pytest.raises(KSchedulerError) as caught:
                await webhook.ask("filter", b"{}")
            assert not canaries.seen_in("".join(traceback.format_exception(caught.value)))
        await webhook.close()
        assert kind == "nobody" or server.logins[0].startswith("Basic ")
