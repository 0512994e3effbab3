from __future__ import annotations

import pytest
from msgspec.structs import replace

from kscheduler.api.objects import ImageVolumeSource, Volume
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37, Release
from kscheduler.framework.plugins.imagelocality import MEBIBYTE, ImageLocality, normalized_image_name
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import PodBuilder, make_node, make_pod
from tests.support.framework_bench import Bench


def bench(release: Release = RELEASE_1_36) -> Bench:
    made = Bench.of(ImageLocality, release=release)
    made.node(make_node("both").image("app:1", 250 * MEBIBYTE).image("db:2", 500 * MEBIBYTE))
    made.node(make_node("app").image("app:1", 250 * MEBIBYTE))
    made.node(make_node("none"))
    return made


@pytest.mark.parametrize(
    ("name", "normal"),
    [
        ("app", "app:latest"),
        ("app:1", "app:1"),
        ("registry:5000/app", "registry:5000/app:latest"),
        ("registry:5000/app:1", "registry:5000/app:1"),
        ("app@sha256:abc", "app@sha256:abc"),
    ],
)
def test_an_image_without_a_tag_means_the_latest(name: str, normal: str) -> None:
    assert normalized_image_name(name) == normal


def test_sizes_are_scaled_by_how_many_nodes_have_the_image() -> None:
    # app: 250 MiB · 2/3 = 166.7 MiB; (166.7 - 23) / (1000 - 23) = 14 %.
    assert bench().scores(make_pod("p").image("app:1")) == {"both": 14, "app": 14, "none": 0}


def test_the_images_of_all_containers_count_against_a_larger_maximum() -> None:
    # app 166.7 MiB and db 500 · 1/3 = 166.7 MiB, of 2,000 MiB for two containers.
    pod = make_pod("p").image("app:1").container(image="db:2")
    assert bench().scores(pod) == {"both": 15, "app": 7, "none": 0}
    pod = make_pod("p").image("app:1").init_container(image="db:2")
    assert bench().scores(pod) == {"both": 15, "app": 7, "none": 0}


@pytest.mark.parametrize(
    ("release", "scores"),
    [
        (RELEASE_1_36, {"both": 31, "app": 14, "none": 0}),  # 333.3 MiB of 1,000 MiB for one container
        (RELEASE_1_37, {"both": 15, "app": 7, "none": 0}),  # of 2,000 MiB: the volume's image counts
    ],
)
def test_image_volumes_count_against_a_larger_maximum_in_1_37(release: Release, scores: dict[str, int]) -> None:
    pod = make_pod("p").image("app:1").obj()
    volumes = [Volume("v", image=ImageVolumeSource("db:2")), Volume("other")]
    pod = replace(pod, spec=replace(pod.spec, volumes=volumes))
    assert bench(release).scores(PodBuilder(pod)) == scores
    signed = ImageLocality(bench(release).handle).sign_pod(PodInfo(pod))
    assert signed == ((1000 if release is RELEASE_1_36 else 2000) * MEBIBYTE, ("app:1", "db:2"))


def test_a_huge_image_scores_no_more_than_full() -> None:
    made = Bench.of(ImageLocality)
    made.node(make_node("has").image("huge:1", 10_000_000 * MEBIBYTE))
    made.node(make_node("not"))
    assert made.scores(make_pod("p").image("huge:1")) == {"has": 100, "not": 0}


@pytest.mark.parametrize("size", [-(1 << 62), 1 << 63, 10**30])
def test_a_size_that_makes_no_sense_harms_nobody(size: int) -> None:
    made = Bench.of(ImageLocality)
    made.node(make_node("has").image("odd:1", size))
    made.node(make_node("not"))
    assert made.scores(make_pod("p").image("odd:1").container(image="odd:1"))["not"] == 0


def test_images_of_other_pods_do_not_count() -> None:
    assert bench().scores(make_pod("p").image("unknown:1")) == {"both": 0, "app": 0, "none": 0}
