"""What the flags of `kscheduler run` change in a configuration."""

from __future__ import annotations

from kscheduler.command.flags.run_options import apply_run_options
from kscheduler.config.duration import Duration
from kscheduler.config.load import default_config
from tests.command.flags.given import run
from tests.config.documents import read


def test_flags_of_the_connection_hold_without_a_configuration_file() -> None:
    flags = ("--kube-api-qps=7.5", "--kube-api-burst=9", "--kube-api-content-type=application/json")
    connection = apply_run_options(default_config(), run(*flags)).client_connection
    assert (connection.qps, connection.burst, connection.content_type) == (7.5, 9, "application/json")


def test_leader_election_flags_override_the_configuration() -> None:
    options = run("--leader-elect=false", "--leader-elect-lease-duration=30s", "--leader-elect-resource-name=mine")
    config = apply_run_options(read("leaderElection: {retryPeriod: 3s}"), options)
    election = config.leader_election
    assert (election.leader_elect, election.resource_name) == (False, "mine")
    assert election.lease_duration == Duration.parse("30s")
    assert election.retry_period == Duration.parse("3s")


def test_the_kubeconfig_flag_holds_where_the_configuration_names_none() -> None:
    options = run("--kubeconfig=/flag")
    assert apply_run_options(default_config(), options).client_connection.kubeconfig == "/flag"
    config = read("clientConnection: {kubeconfig: /file}")
    assert apply_run_options(config, options).client_connection.kubeconfig == "/file"


def test_no_flags_change_nothing() -> None:
    assert apply_run_options(default_config(), run()) == default_config()
