"""A sweep as an Indexed Job: its manifests, what its pods run, and the lines that they print."""

from __future__ import annotations

import base64
import zlib
from pathlib import Path

import msgspec
import pytest

from kscheduler.errors import ConfigError
from kscheduler.sweep import packing
from kscheduler.sweep.grid import parse_grid
from kscheduler.sweep.job import MAX_PARTS, PART_BYTES, job_manifests, owned_by, read_lines, run_index
from kscheduler.sweep.packing import pack, unpack
from kscheduler.sweep.plan import Plan
from kscheduler.sweep.running import carry_out
from tests.sweep.grids import tasks, traced


def test_packed_tasks_are_equal_with_the_content_of_their_files(tmp_path: Path) -> None:
    given = list(Plan(parse_grid(traced(tmp_path), "grid.yaml", ""), [1, 2]).tasks())
    unpacked = list(unpack(pack(given), "plan"))
    assert [task.run for task in unpacked] == [task.run for task in given]
    for before, after in zip(given, unpacked, strict=True):
        assert all(file.content for file in after.inputs.files)
        bare = tuple(msgspec.structs.replace(file, content=b"") for file in after.inputs.files)
        assert msgspec.structs.replace(after.inputs, files=bare) == before.inputs


def test_a_plan_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = pack(tasks())
    monkeypatch.setattr(packing, "__version__", "9.9")
    with pytest.raises(ConfigError, match=r"plan: expected a plan of kscheduler 9.9, got one of "):
        list(unpack(packed, "plan"))


@pytest.mark.parametrize("damage", [lambda data: data[:-5], lambda data: b"x" + data, lambda _: zlib.compress(b"x")])
def test_a_damaged_plan_is_refused(damage: object) -> None:
    assert callable(damage)
    with pytest.raises(ConfigError, match="expected the plan of a sweep"):
        list(unpack(damage(pack(tasks())), "plan"))


def test_a_large_plan_is_spread_over_config_maps_that_the_pods_mount_together() -> None:
    packed = bytes(range(256)) * 6000
    job, *config_maps = job_manifests("sweep", "lab", "image:1", 4, packed)
    assert [each["metadata"]["name"] for each in config_maps] == ["sweep-plan-0", "sweep-plan-1", "sweep-plan-2"]
    parts = {name: base64.b64decode(part) for each in config_maps for name, part in each["binaryData"].items()}
    assert b"".join(parts[name] for name in sorted(parts)) == packed
    spec = job["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 4, 4)
    sources = spec["template"]["spec"]["volumes"][0]["projected"]["sources"]
    assert [each["configMap"]["name"] for each in sources] == [each["metadata"]["name"] for each in config_maps]


def test_a_plan_too_large_for_config_maps_is_refused() -> None:
    with pytest.raises(ConfigError, match="--on job: expected files of at most 11 MB when compressed, got 12 MB"):
        job_manifests("sweep", "lab", "image:1", 4, bytes(MAX_PARTS * PART_BYTES + 1_000_000))


def test_a_dependent_names_the_job_that_owns_it() -> None:
    owned = owned_by({"metadata": {"name": "x"}}, {"metadata": {"name": "sweep", "uid": "u"}})
    assert owned["metadata"]["ownerReferences"] == [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "sweep", "uid": "u"}
    ]


def test_the_indexes_share_the_runs_and_print_their_results(tmp_path: Path) -> None:
    given = tasks((1, 2, 3), configs=[{"name": "one"}])
    packed = pack(given)
    (tmp_path / "plan.000").write_bytes(packed[:100])
    (tmp_path / "plan.001").write_bytes(packed[100:])
    logs = [b"".join(run_index(str(tmp_path), index, 2)) for index in (0, 1)]
    found = [[finished.result for finished in read_lines(log)[0]] for log in logs]
    here = [carry_out(task).result for task in given]
    assert found == [[here[0], here[2]], [here[1]]]


def test_lines_that_are_no_results_are_counted() -> None:
    assert read_lines(b'a warning\n{"sweep": 5}\n\n{"sweep": {"result": {"key"') == ([], 3)


def test_an_index_without_a_plan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected the files plan.000, plan.001... of a sweep, found none"):
        list(run_index(str(tmp_path), 0, 1))
