"""`kscheduler compare` from its arguments to what it prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kscheduler.command.cli import main
from tests.compare.runs import LEAST, MOST, WITHOUT_TAINTS, nodes, small_pods, write_record

INPUT = ("--nodes", "10", "--pods", "60", "--first-on-tie")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in (("least", LEAST), ("most", MOST), ("untainted", WITHOUT_TAINTS)):
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["compare", *arguments, "-o", "json", "--quiet"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


@pytest.mark.usefixtures("folder")
def test_configurations_that_differ_are_compared_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "least.yaml", "most.yaml", *INPUT]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("A: least.yaml (simulated)\nB: most.yaml (simulated)\n")
    assert "NodeResourcesFit scores " in out
    # Between them comes the progress, if the machine is slow.
    begun = [line for line in err.splitlines() if line.startswith("running")]
    assert begun == ["running least.yaml", "running most.yaml"]


@pytest.mark.usefixtures("folder")
def test_the_document_has_what_the_text_shows_and_both_reports(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "least.yaml", "most.yaml", *INPUT, "--limit", "3")
    assert [found[side]["name"] for side in "ab"] == ["least.yaml", "most.yaml"]
    assert found["a"]["report"]["pods"]["total"] == found["pods"]["common"] == 60
    assert len(found["differences"]) == 3
    assert found["not_listed"] == found["pods"]["moved"] - 3
    first = found["differences"][0]
    assert (first["state"], first["why"]["kind"], first["why"]["plugin"]) == ("equal", "score", "NodeResourcesFit")
    assert first["why"]["scores"][0]["plugin"] == "NodeResourcesFit"


@pytest.mark.usefixtures("folder")
def test_the_exit_code_says_whether_they_differ_only_if_that_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    for other, code in (("least.yaml", 0), ("most.yaml", 1)):
        arguments = ["compare", "least.yaml", other, *INPUT, "--quiet"]
        assert main(arguments) == 0
        assert main([*arguments, "--fail-on-difference"]) == code
    capsys.readouterr()


@pytest.mark.usefixtures("folder")
def test_reports_and_configurations_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--nodes", "2", "--pods", "60", "--quiet", "--output", "small.json"]) == 0
    capsys.readouterr()
    found = document(capsys, "small.json", "untainted.yaml", *INPUT)
    assert (found["a"]["kind"], found["b"]["kind"]) == ("report", "simulated")
    assert ["nodes", "2 generated", "10 generated"] in found["parameters"]
    assert found["pods"]["only_placed_in_b"] > 0


def test_a_record_is_compared_with_another_configuration(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_record(folder / "record.zst", LEAST, nodes(2), small_pods(3))
    found = document(capsys, "record.zst", "most.yaml", "--first-on-tie")
    (difference,) = found["differences"]
    assert (difference["pod"], difference["why"]["plugin"]) == ("default/p1", "NodeResourcesFit")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["least.yaml"], "the following arguments are required: B"),
        (["least.yaml", "most.yaml"], "expected an input to simulate configurations on"),
        (["least.yaml", "missing.json"], "missing.json: cannot be read"),
        (["least.yaml", "most.yaml", "--record", "missing.zst"], "missing.zst: cannot be read"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("kscheduler: error: ")
    assert message in err
    assert err.count("\n") == 1


def test_sides_without_a_common_pod_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_record(folder / "one.zst", LEAST, nodes(1), small_pods(1))
    write_record(folder / "none.zst", LEAST, nodes(1), [])
    assert main(["compare", "one.zst", "none.zst", "--quiet"]) == 2
    assert "one.zst has 1 pods, none.zst 0, and none of them in common" in capsys.readouterr().err


@pytest.mark.usefixtures("folder")
def test_an_interrupted_comparison_prints_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kscheduler.command.compare.compare", interrupted)
    assert main(["compare", "least.yaml", "most.yaml", *INPUT]) == 130
    assert capsys.readouterr() == ("", "kscheduler: interrupted; nothing is compared\n")


@pytest.mark.usefixtures("folder")
def test_the_page_holds_the_comparison() -> None:
    assert main(["compare", "least.yaml", "most.yaml", *INPUT, "--html", "page.html", "--quiet"]) == 0
    page = Path("page.html").read_text()
    data = page.partition('id="data">')[2].partition("</script>")[0]
    assert json.loads(data)["differences"]
    assert main(["compare", "least.yaml", "most.yaml", *INPUT, "--html", "none/page.html", "--quiet"]) == 2
