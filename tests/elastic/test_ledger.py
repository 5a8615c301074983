"""Clients' calls and the server's own log must be the same calls."""

from __future__ import annotations

import pytest
from elastic.runs import loaded, request, resize_file, start_file

from ep_campaign.elastic.ledger import client_ledger, reconcile, server_ledger


def test_what_clients_count() -> None:
    """Requests by status, probes of health and failed connections apart; looks and last words of resizes are calls, too."""
    run = loaded(
        request(0),
        request(1, status=503, success=False, error_class="http_status"),
        request(2, path="/health", phase="probe"),
        request(3, status=None, success=False, error_class="connect"),
        request(4, status=200, success=False, error_class="cut"),
        request(5, status=None, success=False, error_class="disconnected"),
    )
    record = start_file(resizes=[resize_file(), resize_file(verdict="refused", calls=[400])])
    # 200: the request, two of the look, two last words; 400: two looks' bounds and one more
    assert ({"200": 5, "400": 3, "503": 1}, 2) == client_ledger(record, [run])


def test_last_words_that_failed_are_unseen() -> None:
    """Which of the two was answered, and how, nobody noted."""
    record = start_file(resizes=[resize_file(calls=[], last_words="a streamed request was answered with status 500")])
    assert ({}, 2) == client_ledger(record, [])


def test_what_servers_count() -> None:
    """What the logs gained during the start, over all deployments."""
    record = start_file(
        server_log_before=[{"200": 10, "400": 2}, {}], server_log=[{"200": 15, "400": 2}, {"200": 3, "503": 1}]
    )
    assert {"200": 8, "503": 1} == server_ledger(record)


@pytest.mark.parametrize("fields", [{"server_log": [None]}, {"server_log": []}, {"server_log_before": [None]}])
def test_a_log_that_cannot_be_read(fields: dict[str, object]) -> None:
    """No ledger is better than half of one."""
    assert server_ledger(start_file(**fields)) is None


@pytest.mark.parametrize(
    ("client", "unseen", "server", "agrees"),
    [
        ({"200": 5}, 0, {"200": 5}, True),
        ({"200": 5}, 1, {"200": 5, "500": 1}, True),
        ({"200": 5}, 1, {"200": 6}, True),
        ({"200": 5}, 0, {"200": 6}, False),
        ({"200": 5}, 3, {"200": 4}, False),
        ({"200": 5, "503": 1}, 0, {"200": 5}, False),
        ({}, 0, {}, True),
    ],
    ids=["equal", "cut and failed", "cut and served", "a stranger's", "never arrived", "another answered", "nothing"],
)
def test_reconciliation(client: dict[str, int], unseen: int, server: dict[str, int], agrees: bool) -> None:
    """A server may have logged what no client saw the end of; it may not lack a call, and no stranger may have called."""
    assert agrees == (reconcile(client, unseen, server) is None)
