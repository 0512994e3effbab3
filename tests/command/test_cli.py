"""The command as a user meets it: an error is one line, with file, field and value; never a traceback."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kscheduler import __version__
from kscheduler.command.cli import main
from kscheduler.testing.controlplane import ports
from kscheduler.testing.controlplane.patience import Patience, eventually

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
ALONE = HEAD + "leaderElection: {leaderElect: false}\n"

pytestmark = pytest.mark.usefixtures("logging_restored")


def kubeconfig_for(port: int) -> str:
    return f"""
apiVersion: v1
kind: Config
current-context: here
clusters: [{{name: c, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: u, user: {{token: t}}}}]
contexts: [{{name: here, context: {{cluster: c, user: u}}}}]
"""


@pytest.fixture
def free_port() -> int:
    return ports.free_port()


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], str]:
    def to(name: str, text: str) -> str:
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return to


def answer_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout, stderr; the process's own answer, so nothing may be raised."""
    code = main(arguments)
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return code, out, err


def assert_one_line(err: str, *parts: str) -> None:
    assert re.fullmatch(r"kscheduler: error: [^\n]+\n", err), err
    for part in parts:
        assert part in err, err


# --- configuration ------------------------------------------------------------------------------------------------

WRONG: dict[str, tuple[str, list[str]]] = {
    "a misspelt field": (
        HEAD + "leaderElection: {leaderElct: true}\n",
        ['unknown field "leaderElection.leaderElct"'],
    ),
    "a misspelt field of a plugin": (
        HEAD + "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {ignoredResource: [a]}}]}]\n",
        ["ignoredResource"],
    ),
    "a value of the wrong type": (
        HEAD + "podMaxBackoffSeconds: many\n",
        ["podMaxBackoffSeconds", "expected an integer", '"many"'],
    ),
    "a value out of range": (
        HEAD + "percentageOfNodesToScore: 150\n",
        ["percentageOfNodesToScore", "150"],
    ),
    "several wrong values": (
        HEAD + "percentageOfNodesToScore: 150\nparallelism: 0\npodInitialBackoffSeconds: -1\n",
        ["percentageOfNodesToScore", "parallelism", "podInitialBackoffSeconds"],
    ),
    "another apiVersion": (HEAD.replace("/v1", "/v1beta3"), ["kubescheduler.config.k8s.io/v1beta3"]),
    "another kind": (HEAD.replace("KubeScheduler", "Kubelet"), ["KubeletConfiguration"]),
    "no YAML": ("a: [b\n", ["line 2", "expected"]),
    "a list": ("- a\n", ["expected"]),
    "an empty file": ("", ["expected"]),
    "an unknown plugin": (
        HEAD + "profiles: [{plugins: {filter: {enabled: [{name: NoSuchThing}]}}}]\n",
        ['FilterPlugin "NoSuchThing" does not exist'],
    ),
    "a plugin whose arguments are under another name": (
        HEAD + "profiles: [{plugins: {multiPoint: {enabled: [{name: Packing}]}}, "
        "pluginConfig: [{name: packing, args: {guestURL: 'file:///p.wasm'}}]}]\n",
        ['PreFilterPlugin "Packing" does not exist', 'pluginConfig has arguments of "packing"', "have to be the same"],
    ),
    "two profiles of one name": (
        HEAD + "profiles: [{schedulerName: a}, {schedulerName: a}]\n",
        ["profiles[1].schedulerName: Duplicate value"],
    ),
    "an extender without a scheme": (
        HEAD + 'extenders: [{urlPrefix: "127.0.0.1:8888", filterVerb: filter}]\n',
        ["extenders[0].urlPrefix", "'127.0.0.1:8888'"],
    ),
}


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("command", ["validate", "run"])
def test_a_wrong_configuration_is_refused_with_file_field_and_value(
    what: str, command: str, write: Callable[[str, str], str], capsys: pytest.CaptureFixture[str], free_port: int
) -> None:
    text, parts = WRONG[what]
    path = write("scheduler.yaml", text)
    if command == "validate":
        code, out, err = answer_of(capsys, "config", "validate", path)
    else:
        kubeconfig = write("kubeconfig", kubeconfig_for(free_port))
        code, out, err = answer_of(capsys, "run", "--config", path, "--kubeconfig", kubeconfig, "--secure-port", "0")
    assert (code, out) == (2, "")
    assert_one_line(err, path, *parts)


@pytest.mark.parametrize("command", [("config", "validate"), ("config", "show"), ("run", "--config")])
def test_a_configuration_that_cannot_be_read_is_named(
    command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path, problem in ((str(tmp_path / "absent.yaml"), "No such file"), (str(tmp_path), "Is a directory")):
        code, out, err = answer_of(capsys, *command, path)
        assert (code, out) == (2, "")
        assert_one_line(err, path, problem)


def test_a_valid_configuration_is_called_valid_and_what_is_missing_is_listed(
    write: Callable[[str, str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = write("scheduler.yaml", HEAD + "profiles: [{schedulerName: a}, {schedulerName: b}]\n")
    code, out, err = answer_of(capsys, "config", "validate", path)
    assert (code, err) == (0, "")
    first, *others = out.splitlines()
    assert first == f"{path}: valid, profiles: a, b"
    assert all(line.startswith(f"{path}: ") for line in others)


def test_an_extender_that_is_never_asked_is_named(
    write: Callable[[str, str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    url = "urlPrefix: 'http://127.0.0.1:8888'"
    path = write("scheduler.yaml", HEAD + f"extenders: [{{{url}, filterVerb: filter}}, {{{url}}}]\n")
    _, out, _ = answer_of(capsys, "config", "validate", path)
    assert f"{path}: extenders[1] has no verb, such as filterVerb, so it is never asked\n" in out
    assert "extenders[0]" not in out


def test_a_bind_plugin_that_is_never_asked_is_named(
    write: Callable[[str, str], str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = (
        "class Mine:\n    name = 'Mine'\n    def __init__(self, args, handle): pass\n"
        "    async def bind(self, state, pod, node_name): pass\n"
    )
    monkeypatch.syspath_prepend(str(Path(write("bind_behind.py", source)).parent))
    plugins = "multiPoint: {enabled: [{name: 'bind_behind:Mine'}]}"
    path = write("scheduler.yaml", HEAD + f"profiles: [{{plugins: {{{plugins}}}}}]\n")
    _, out, _ = answer_of(capsys, "config", "validate", path)
    assert f"{path}: profile default-scheduler never asks bind_behind:Mine to bind" in out


def test_fields_and_feature_gates_without_effect_are_named(
    write: Callable[[str, str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = write("scheduler.yaml", HEAD + "parallelism: 32\n")
    gates = "SchedulerAsyncAPICalls=true"
    code, out, _ = answer_of(capsys, "config", "validate", path, "--feature-gates", gates)
    assert code == 0
    assert f"{path}: parallelism has no effect: kernels look at all nodes\n" in out
    assert f"--feature-gates {gates} has no effect: kscheduler has one behaviour\n" in out


def test_a_configuration_is_validated_with_the_feature_gates_that_it_needs(
    write: Callable[[str, str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    shape = "shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]"
    entry = f"{{name: VolumeBinding, args: {{{shape}}}}}"
    path = write("scheduler.yaml", HEAD + f"profiles: [{{pluginConfig: [{entry}]}}]\n")
    arguments = ("config", "validate", path, "--emulated-version", "1.36")
    assert answer_of(capsys, *arguments)[0] == 2
    assert answer_of(capsys, *arguments, "--feature-gates", "StorageCapacityScoring=true")[0] == 0


def test_a_routing_configuration_is_validated_too(
    write: Callable[[str, str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    head = "apiVersion: kscheduler.io/v1alpha1\nkind: RoutingConfiguration\ncertFile: c\nkeyFile: k\n"
    path = write("routing.yaml", head + "rules: [{name: a, schedulerName: b, planB: c}]\n")
    assert answer_of(capsys, "config", "validate", path) == (0, f"{path}: valid, rules: a\n", "")
    path = write("routing.yaml", head + "rules: [{name: a}]\n")
    code, out, err = answer_of(capsys, "config", "validate", path)
    assert (code, out) == (2, "")
    assert_one_line(err, path, "rules[0].schedulerName: Required value")


def test_show_prints_a_configuration_that_is_valid_again(
    write: Callable[[str, str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = write("scheduler.yaml", HEAD + "percentageOfNodesToScore: 30\n")
    code, shown, _ = answer_of(capsys, "config", "show", path)
    assert code == 0
    assert "percentageOfNodesToScore: 30" in shown
    assert "leaseDuration: 15s" in shown
    again = write("again.yaml", shown)
    code, shown_again, _ = answer_of(capsys, "config", "show", again)
    assert (code, shown_again) == (0, shown)


SECRET = (
    HEAD
    + """profiles:
- plugins: {score: {enabled: [{name: TargetLoadPacking}]}}
  pluginConfig:
  - name: TargetLoadPacking
    args: {metricProvider: {type: Prometheus, address: "http://p:9090", token: s3cret}}
"""
)


def test_show_hides_secrets_unless_a_flag_asks_for_them(
    write: Callable[[str, str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = write("scheduler.yaml", SECRET)
    assert "token: <hidden>\n" in answer_of(capsys, "config", "show", path)[1]
    assert "token: s3cret\n" in answer_of(capsys, "config", "show", path, "--secrets")[1]


def test_a_written_configuration_with_secrets_is_whole_and_for_its_owner_only(
    write: Callable[[str, str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "written.yaml"
    answer_of(capsys, "run", "--config", write("scheduler.yaml", SECRET), "--write-config-to", str(written))
    assert "token: s3cret\n" in written.read_text()
    assert written.stat().st_mode & 0o777 == 0o600


def test_show_expanded_adds_the_plugins_of_each_point_in_order_with_weights(
    write: Callable[[str, str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    profile = "profiles: [{schedulerName: a, plugins: {score: {disabled: [{name: ImageLocality}]}}}]\n"
    path = write("scheduler.yaml", HEAD + profile)
    code, out, _ = answer_of(capsys, "config", "show", path, "--expanded")
    assert code == 0
    lines = out.splitlines()
    assert "# plugins of profile a that run, in order (weight)" in lines
    (filters,) = (line for line in lines if line.startswith("filter: "))
    assert filters.startswith("filter: [NodeUnschedulable, NodeName, TaintToleration, NodeAffinity, NodePorts, ")
    (score,) = (line for line in lines if line.startswith("score: "))
    assert "TaintToleration (3), NodeAffinity (2)" in score
    assert "ImageLocality" not in score


def test_the_configuration_in_force_can_be_written_to_a_file(
    write: Callable[[str, str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, written = write("scheduler.yaml", ALONE), tmp_path / "written.yaml"
    code, out, _ = answer_of(
        capsys, "run", "--config", path, "--leader-elect-lease-duration", "20s", "--write-config-to", str(written)
    )
    assert (code, out) == (0, "")
    assert "leaseDuration: 20s" in written.read_text()


def test_a_configuration_that_cannot_be_written_is_an_error_in_one_line(
    write: Callable[[str, str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = str(tmp_path / "absent" / "x.yaml")
    code, _, err = answer_of(capsys, "run", "--config", write("scheduler.yaml", ALONE), "--write-config-to", absent)
    assert code == 2
    assert_one_line(err, "--write-config-to", absent, "No such file")


# --- version and grammar ------------------------------------------------------------------------------------------


def output_into(stdout: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kscheduler", *arguments]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)


@pytest.mark.parametrize("arguments", [["version"], ["--help"], ["run", "--help"]])
def test_output_for_which_there_is_no_space_is_an_error_in_one_line(arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        ended = output_into(full.fileno(), *arguments)
    assert ended.returncode == 1
    assert ended.stderr == "kscheduler: error: cannot write the output: No space left on device\n"


@pytest.mark.parametrize(
    "variables",
    [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}],
    ids=["strict", "surrogateescape"],
)
def test_what_an_encoding_lacks_is_written_as_escapes(variables: dict[str, str]) -> None:
    command = [sys.executable, "-m", "kscheduler", "simulate", "--nodes", "1", "--pods", "1"]
    environment = {**os.environ, **variables}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "\\xb5s of CPU a placed pod" in ended.stdout


def test_a_pipe_that_nobody_reads_ends_the_program_quietly() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ended = output_into(writing, "version")
    finally:
        os.close(writing)
    assert (ended.returncode, ended.stderr) == (0, "")


def exit_code_of_an_error(stderr: int, *, unbuffered: str) -> int:
    command = [sys.executable, "-m", "kscheduler", "config", "validate", "missing"]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    return subprocess.run(command, stderr=stderr, check=False, env=environment).returncode


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_errors_that_cannot_be_written_leave_the_exit_code(unbuffered: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        assert exit_code_of_an_error(writing, unbuffered=unbuffered) == 2
    finally:
        os.close(writing)
    with Path("/dev/full").open("wb") as full:
        assert exit_code_of_an_error(full.fileno(), unbuffered=unbuffered) == 2


def test_a_command_that_reports_progress_on_a_stderr_that_nobody_reads_keeps_its_exit_code(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "kscheduler", "simulate", "--nodes", "1", "--pods", "1", "--output", str(report)]
    reading, writing = os.pipe()
    os.close(reading)
    try:
        assert subprocess.run(command, stderr=writing, check=False).returncode == 0
    finally:
        os.close(writing)
    assert report.exists()


def test_a_closed_stderr_changes_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["simulate", "--nodes", "1", "--pods", "1"]
    monkeypatch.setattr(sys, "stderr", None)
    assert main(arguments) == 0
    assert "placed 1 of 1 pod (" in capsys.readouterr().out
    assert main(["config", "validate", "missing"]) == 2
    assert capsys.readouterr().out == ""


def test_an_interrupted_command_ends_with_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("kscheduler.command.cli.version", interrupted)
    assert answer_of(capsys, "version") == (130, "", "kscheduler: interrupted\n")


def test_a_command_that_lacks_memory_ends_with_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def too_large(*_: object) -> int:
        raise MemoryError

    monkeypatch.setattr("kscheduler.command.cli.simulate", too_large)
    assert main(["simulate"]) == 1
    assert capsys.readouterr().err == "kscheduler: error: there is not enough memory for this\n"


def test_version_as_text_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = answer_of(capsys, "version")
    assert code == 0
    assert out.startswith(f"kscheduler {__version__} (CPython ")
    code, out, _ = answer_of(capsys, "version", "--output", "json")
    assert code == 0
    facts = json.loads(out)
    assert facts["version"] == __version__
    assert set(facts) == {"version", "python", "compiled"}
    assert answer_of(capsys, "run", "--version") == (0, f"kscheduler {__version__}\n", "")
    assert answer_of(capsys, "run", "--version=raw") == (0, out, "")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("scheduel",),
        ("run", "--confg", "x"),
        ("run", "--secure-port", "70000"),
        ("run", "--leader-elect-lease-duration", "fast"),
        ("version", "--output", "xml"),
        ("config",),
        ("config", "show"),
    ],
)
def test_wrong_arguments_are_one_line_and_exit_code_two(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = answer_of(capsys, *arguments)
    assert (code, out) == (2, "")
    assert_one_line(err, "--help")


# --- kubeconfig ---------------------------------------------------------------------------------------------------

BROKEN_KUBECONFIGS: dict[str, tuple[str, str]] = {
    "no YAML": (": : [\n", "not valid YAML"),
    "no current-context": ("apiVersion: v1\nkind: Config\nclusters: []\n", "current-context"),
    "a context that is not there": (kubeconfig_for(1).replace("context: here", "context: there"), "'there'"),
    "a cluster that is not there": (kubeconfig_for(1).replace("cluster: c,", "cluster: d,"), "d"),
    "a list": ("- a\n", "expected"),
}  # fmt: skip


@pytest.mark.parametrize("what", BROKEN_KUBECONFIGS)
def test_a_broken_kubeconfig_ends_the_program_with_one_line(
    what: str, write: Callable[[str, str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    text, part = BROKEN_KUBECONFIGS[what]
    kubeconfig = write("kubeconfig", text)
    config = write("scheduler.yaml", ALONE)
    arguments = ("run", "--config", config, "--kubeconfig", kubeconfig, "--secure-port", "0", "-v", "0")
    code, out, err = answer_of(capsys, *arguments)
    assert (code, out) == (2, "")
    assert_one_line(last_line(err), f"kubeconfig {kubeconfig}", part)


def test_a_kubeconfig_that_is_not_there_ends_the_program_with_one_line(
    write: Callable[[str, str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = str(tmp_path / "absent")
    arguments = ("--config", write("scheduler.yaml", ALONE), "--kubeconfig", absent, "--secure-port", "0")
    code, _, err = answer_of(capsys, "run", *arguments)
    assert code == 2
    assert_one_line(last_line(err), f"kubeconfig {absent}: no such file")


def last_line(text: str) -> str:
    """Warnings are logged before."""
    return text.splitlines(keepends=True)[-1]


# --- as a module ---


@pytest.mark.parametrize("module", ["json", "yaml", "argparse"])
def test_what_lies_in_the_current_directory_is_not_imported(module: str, tmp_path: Path) -> None:
    (tmp_path / f"{module}.py").write_text("raise SystemExit('from the current directory')\n")
    (tmp_path / "file.yaml").write_text(HEAD)
    command = [sys.executable, "-m", "kscheduler", "config", "show", "file.yaml"]
    shown = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (shown.returncode, shown.stderr) == (0, "")


def test_a_directory_that_pythonpath_names_is_looked_in(tmp_path: Path) -> None:
    (tmp_path / "yaml.py").write_text("raise SystemExit('as the user says')\n")
    (tmp_path / "file.yaml").write_text(HEAD)
    command = [sys.executable, "-m", "kscheduler", "config", "show", "file.yaml"]
    environment = {**os.environ, "PYTHONPATH": "."}
    shown = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert shown.stderr == "as the user says\n"


# --- an unreachable apiserver -------------------------------------------------------------------------------------


class Running:
    """A `kscheduler run` process whose log is read as it comes."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "kscheduler", "run", *arguments]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.log: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.log.extend(iter(self.process.stderr.readline, ""))

    def recorded(self, *parts: str) -> bool:
        """Is there a line with all of these?"""
        return any(all(part in line for part in parts) for line in list(self.log))

    def wait_for(self, what: Callable[[], bool]) -> None:
        patience = Patience("a process does what is expected", lambda: "".join(self.log))
        while not what():
            assert self.process.poll() is None, "".join(self.log)
            patience.pause()

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        eventually(lambda: self.process.poll() is not None, "it ends", state=lambda: "".join(self.log))
        code = self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        assert self.process.stdout.read() == ""
        return code


@contextlib.contextmanager
def running(*arguments: str) -> Iterator[Running]:
    found = Running(*arguments)
    try:
        yield found
    finally:
        if found.process.poll() is None:
            found.process.kill()
            found.process.wait()
        for stream in (found.process.stdout, found.process.stderr):
            assert stream is not None
            stream.close()


def status_of(url: str) -> int:
    """HTTP status; 0 while nobody answers."""
    trusting = ssl.create_default_context()
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE
    try:
        with urllib.request.urlopen(url, timeout=5, context=trusting) as answer:
            status: int = answer.status
            return status
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError:
        return 0


@pytest.mark.slow
@pytest.mark.parametrize("elects", [False, True])
def test_an_unreachable_apiserver_is_logged_once_asked_again_and_leaves_the_scheduler_unready(
    elects: bool, write: Callable[[str, str], str], free_port: int
) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound, not listening: connections are refused
        apiserver, port = nobody.getsockname()[1], free_port
        config = write("scheduler.yaml", HEAD + f"leaderElection: {{leaderElect: {str(elects).lower()}}}\n")
        arguments = ("--config", config, "--kubeconfig", write("kubeconfig", kubeconfig_for(apiserver)))
        with running(*arguments, "--bind-address", "127.0.0.1", "--secure-port", str(port)) as replica:
            address = f"https://127.0.0.1:{port}"
            # 1. It says so, with the address, and keeps trying.
            unknown = "the version of the apiserver is not known yet"
            replica.wait_for(lambda: replica.recorded(unknown, f"127.0.0.1:{apiserver}", "needs"))
            # 2. It is alive, and not ready.
            replica.wait_for(lambda: status_of(f"{address}/livez") == 200)
            replica.wait_for(lambda: status_of(f"{address}/readyz") == 500)
            # 3. It ends at SIGTERM, and nothing looked like a crash.
            assert replica.end(signal.SIGTERM) == 0
    text = "".join(replica.log)
    assert "Traceback" not in text
    assert text.count(unknown) == 1


@pytest.mark.slow
def test_a_port_that_is_taken_ends_the_program_with_one_line(write: Callable[[str, str], str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        arguments = ["--config", write("scheduler.yaml", ALONE), "--kubeconfig", write("kubeconfig", kubeconfig_for(1))]
        answer = subprocess.run(
            [sys.executable, "-m", "kscheduler", "run", *arguments, "--bind-address", "127.0.0.1",
             "--secure-port", str(port)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert_one_line(last_line(answer.stderr), f"--secure-port {port}", "address already in use")
    assert "Traceback" not in answer.stderr
