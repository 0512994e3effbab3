"""`kscheduler explain` as a user meets it: a scheduler that has run in memory is asked over a real socket."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kscheduler.command.cli import main
from kscheduler.command.explain import pod_key
from kscheduler.explain.endpoint import ExplainEndpoint
from kscheduler.explain.explainer import Explainer, Leadership
from kscheduler.explain.options import PATH, DecisionLogOptions, ExplainOptions
from kscheduler.scheduler import Options
from kscheduler.serving.certificates import server_context
from kscheduler.simulator.virtual_time import run_virtual
from kscheduler.testing import make_node, make_pod
from tests.command.serving import Serving
from tests.serving.authority import Authority
from tests.support.world import World

pytestmark = pytest.mark.usefixtures("logging_restored")


def played() -> Explainer:
    """A scheduler after its work: one pod bound, one that fits nowhere."""
    made: list[Explainer] = []

    async def play() -> None:
        async with World(options=Options(explain=DecisionLogOptions())) as world:
            explainer = world.scheduler.explainer(lambda: Leadership("me_1", True, "me_1"))
            assert explainer is not None
            made.append(explainer)
            for name in ("n1", "n2"):
                world.add_node(make_node(name).capacity(cpu="4", memory="8Gi"))
            world.add_pod(make_pod("web").req(cpu="1"))
            world.add_pod(make_pod("huge", "other").req(cpu="9"))
            await world.sleep(5.0)

    run_virtual(play())
    return made[0]


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    server = Serving({PATH: ExplainEndpoint(played()).answer}, tmp_path_factory.mktemp("certificates"))
    yield server
    server.stop()


def answer_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["explain", *arguments])
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return code, out, err


def test_a_bound_pod_is_explained_in_words(serving: Serving, token: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = answer_of(capsys, "web", "--server", serving.url, token)
    assert (code, err) == (0, "")
    assert out.startswith("Pod default/web is on n")
    assert "2 of 2 nodes looked at, 2 fit" in out
    assert "NodeResourcesFit" in out


def test_a_waiting_pod_is_explained_in_words(serving: Serving, token: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = answer_of(capsys, "pod/huge", "-n", "other", "--nodes=all", "--server", serving.url, token)
    assert code == 0
    assert out.startswith("Pod other/huge fits nowhere: 0/2 nodes are available: 2 Insufficient cpu.")
    assert "  2 nodes:  NodeResourcesFit  Insufficient cpu  n1, n2\n" in out
    assert "  n2  NodeResourcesFit: Insufficient cpu\n" in out
    assert "woken by" in out


def test_an_explanation_is_also_printed_as_json(
    serving: Serving, token: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = answer_of(capsys, "other/huge", "--output=json", "--server", serving.url, token)
    document = json.loads(out)
    assert (code, document["state"], document["pod"]["namespace"]) == (0, "unschedulable", "other")
    assert document["decisions"][0]["reasons"][0]["plugin"] == "NodeResourcesFit"
    assert "verdicts" not in document["decisions"][0]


def test_a_pod_that_nobody_knows_is_named(serving: Serving, token: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = answer_of(capsys, "nobody", "--server", serving.url, token)
    assert (code, out) == (1, "")
    assert err.startswith("kscheduler: error: pod default/nobody is not known: no unfinished pod has this name")


def test_a_refusal_explains_how_to_show_a_token(serving: Serving, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = answer_of(capsys, "web", "--server", serving.url)
    assert code == 1
    assert "forbidden: that is not yours" in err
    assert "--token-file FILE, or --kubeconfig FILE" in err


def test_the_token_of_a_kubeconfig_is_shown(
    serving: Serving, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG.replace("USER", "token: good"))
    assert answer_of(capsys, "web", "--server", serving.url, f"--kubeconfig={path}")[0] == 0
    path.write_text(KUBECONFIG.replace("USER", ""))
    code, _, err = answer_of(capsys, "web", "--server", serving.url, f"--kubeconfig={path}")
    assert code == 2
    assert "expected a user with a token or a client certificate" in err


@pytest.mark.parametrize(("user", "expected"), [("good", 0), ("somebody", 1)])
def test_the_client_certificate_of_a_kubeconfig_is_shown(
    serving: Serving, tmp_path: Path, capsys: pytest.CaptureFixture[str], user: str, expected: int
) -> None:
    pair = Authority("clients").issue(user).write(tmp_path / "pair.pem")
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG.replace("USER", f"client-certificate: {pair}, client-key: {pair}"))
    assert answer_of(capsys, "web", "--server", serving.url, f"--kubeconfig={path}")[0] == expected


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {USER}}]
contexts: [{name: here, context: {cluster: c, user: u}}]
"""


def test_nobody_listening_is_reported_with_the_way_to_the_leader(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but not listening
        code, out, err = answer_of(capsys, "web", "--server", f"https://127.0.0.1:{taken.getsockname()[1]}")
    assert (code, out) == (1, "")
    assert "no answer: Connection refused. Is a scheduler listening there?" in err
    assert "port-forward" in err


def test_a_refusal_that_breaks_off_is_one_line(token: str, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 500 Oh\r\nTransfer-Encoding: chunked\r\n\r\nno size\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=refuse, args=(listening,))
        thread.start()
        code, out, err = answer_of(capsys, "web", "--server", f"http://127.0.0.1:{listening.getsockname()[1]}", token)
        thread.join()
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "refused without a message" in err


@pytest.mark.parametrize("text", ["", "\n", "two\nlines", "caf\u00e9"])
def test_a_file_with_no_token_in_it_is_named(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "token"
    path.write_text(text)
    code, out, err = answer_of(capsys, "web", f"--token-file={path}")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"--token-file {path}: expected a token, got nothing, or a text with" in err


def test_a_certificate_that_nobody_vouches_for_is_refused_unless_a_flag_allows_it(
    serving: Serving, token: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Here the scheduler is on this machine; naming an authority asks for verification all the same."""
    authority = tmp_path / "ca.crt"
    authority.write_text(_another_certificate(tmp_path / "other"))
    flag = f"--certificate-authority={authority}"
    code, _, err = answer_of(capsys, "web", "--server", serving.url, token, flag)
    assert (code, "certificate" in err.lower()) == (1, True)
    assert answer_of(capsys, "web", "--server", serving.url, token, flag, "--insecure-skip-tls-verify")[0] == 0


def _another_certificate(directory: Path) -> str:
    directory.mkdir()
    server_context("", "", str(directory))
    return next(path for path in directory.iterdir() if path.suffix == ".crt").read_text()


@pytest.mark.parametrize(
    ("arguments", "recorded"),
    [
        (["a/b/c"], "POD: expected a name, or NAMESPACE/NAME, got 'a/b/c'"),
        (["/p"], "POD: expected a name"),
        (["p", "--server", "127.0.0.1"], "expected a URL such as https://127.0.0.1:10259, got '127.0.0.1'"),
        (
            ["p", "--server", "scheduler.example"],
            "got a text without http:// or https://, which may be secret",
        ),
        (["p", "--top", "1000"], "expected an integer from 0 to 100"),
        (["p", "--token-file", "/does/not/exist"], "--token-file /does/not/exist: cannot be read: No such file"),
        (
            ["p", "--certificate-authority", "/does/not/exist"],
            "--certificate-authority /does/not/exist: No such file or directory",
        ),
        (["p", "-n", "\udcff"], r"POD: expected names as Kubernetes has them, in ASCII, got '\udcff/p'"),
        ([], "the following arguments are required: POD"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(
    arguments: list[str], recorded: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = answer_of(capsys, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert recorded in err


@pytest.mark.parametrize("name", ["gang", "podgroup"])
def test_a_pod_may_have_the_name_of_a_kind(
    name: str, serving: Serving, token: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = answer_of(capsys, name, "--server", serving.url, token)
    assert code == 1
    assert f"pod default/{name} " in err


def test_a_pod_may_say_its_namespace_itself() -> None:
    assert pod_key(ExplainOptions("p")) == "default/p"
    assert pod_key(ExplainOptions("pod/p", namespace="a")) == "a/p"
    assert pod_key(ExplainOptions("b/p", namespace="a")) == "b/p"
