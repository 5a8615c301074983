"""A real cluster for tests, named by EP_CAMPAIGN_TEST_KUBECONFIG; a namespace of its own for each test; a gate before its API."""

from __future__ import annotations

import os
import select
import socket
import threading
import time
import uuid
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from snakemake_executor_plugin_gang.api import Api, connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

VARIABLE = "EP_CAMPAIGN_TEST_KUBECONFIG"


def kubeconfig() -> Path:
    """The kubeconfig of the test cluster; the test is skipped, with the reason, where there is none."""
    path = os.environ.get(VARIABLE, "")
    if not path:
        pytest.skip(f"{VARIABLE} names no kubeconfig: `make test-cluster` needs a Kubernetes cluster to test on")
    return Path(path)


def admin(path: Path) -> client.ApiClient:
    """A client with every right."""
    return config.new_client_from_config(str(path))


def api_of(path: Path, namespace: str, bound_s: float = 20) -> Api:
    """The executor's own API client, as campaigns use it."""
    return Api(lambda: connect(path, None), namespace, bound_s, lambda _text: None)


@contextmanager
def namespace(everything: client.ApiClient) -> Iterator[str]:
    """A namespace of its own, removed afterwards with all that is in it."""
    core, name = client.CoreV1Api(everything), f"ep-test-{uuid.uuid4().hex[:8]}"
    core.create_namespace({"metadata": {"name": name}})
    try:
        until(lambda: any(True for _ in core.list_namespaced_service_account(name).items), "its default ServiceAccount")
        yield name
    finally:
        with suppress(ApiException):
            core.delete_namespace(name)


def until(true: Callable[[], Any], what: str, bound_s: float = 20) -> Any:
    """The first true answer, asked ten times a second."""
    deadline = time.monotonic() + bound_s
    while time.monotonic() < deadline:
        found = true()
        if found:
            return found
        time.sleep(0.1)
    pytest.fail(f"waited {bound_s} s for {what}")


class Gate:
    """A door in front of the API server: while it is shut, the server is away."""

    def __init__(self, path: Path, folder: Path) -> None:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        server = document["clusters"][0]["cluster"]
        target = urlsplit(server["server"])
        self._target = (target.hostname, target.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open, self._pairs = True, set[socket.socket]()
        server["server"] = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        server["tls-server-name"] = target.hostname
        self.kubeconfig = folder / "gate.kubeconfig"
        self.kubeconfig.write_text(yaml.safe_dump(document), encoding="utf-8")
        threading.Thread(target=self._accept, daemon=True).start()

    def shut(self) -> None:
        """Breaks off every connection and refuses new ones."""
        self._open = False
        for one in list(self._pairs):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def open(self) -> None:
        """The server is back."""
        self._open = True

    def close(self) -> None:
        """For good."""
        self.shut()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if self._open:
                threading.Thread(target=self._carry, args=(near,), daemon=True).start()
            else:
                near.close()

    def _carry(self, near: socket.socket) -> None:
        with near, suppress(OSError), socket.create_connection(self._target) as far:
            self._pairs |= {near, far}
            while self._open:
                for one in select.select([near, far], [], [], 0.2)[0]:
                    data = one.recv(65_536)
                    if not data:
                        return
                    (far if one is near else near).sendall(data)
        self._pairs -= {near}


PROFILE = "EP_CAMPAIGN_TEST_PROFILE"


def profile() -> Path:
    """Folder of `place.yaml` (an image with Python and torch) and `pod.yaml` for the test cluster; skipped without one."""
    path = os.environ.get(PROFILE, "")
    if not path:
        pytest.skip(f"{PROFILE} names no folder with place.yaml and pod.yaml: no pod can run on the test cluster")
    return Path(path)
