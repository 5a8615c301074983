"""What a pod sees of its node, and what admission makes of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from ep_campaign.custody.audit import AuditNeeds, audit_refusals, version_key
from ep_worker.audit import AUDIT_SCHEMA, audit, main
from ep_worker.fabric import snapshot

if TYPE_CHECKING:
    from pathlib import Path

NEEDS = AuditNeeds(
    modules={"efa": "3.3.0", "gdrdrv": ""},
    parameters={"nvidia_uvm/uvm_disable_hmm": "Y"},
    character_devices=("/dev/gdrdrv",),
    nics={"efa": 2},
    num_gpus=8,
    memlock_bytes=1 << 30,
)


def good(**changes: Any) -> dict[str, Any]:
    """The audit of a node that is fit."""
    return {
        "kernel": "6.1.166-197.305.amzn2023.x86_64",
        "machine": "x86_64",
        "modules": {"efa": "3.3.0g", "gdrdrv": "2.5"},
        "parameters": {"nvidia_uvm/uvm_disable_hmm": "Y"},
        "character_devices": ["/dev/gdrdrv"],
        "nics": {"rdmap79s0": "efa", "rdmap80s0": "efa"},
        "num_gpus": 8,
        "memlock_bytes": -1,
        **changes,
    }


class TestRefusals:
    def test_accepts_what_is_fit(self) -> None:
        """Two equal nodes with all that is asked for are refused nothing."""
        assert audit_refusals(NEEDS, {"node-0": good(), "node-1": good()}) == []

    @pytest.mark.parametrize(
        ("changes", "expected"),
        [
            ({"modules": {"efa": "3.3.0"}}, "module_missing"),
            ({"modules": {"efa": "2.17.3g", "gdrdrv": ""}}, "module_too_old"),
            ({"parameters": {"nvidia_uvm/uvm_disable_hmm": "N"}}, "wrong_module_parameter"),
            ({"parameters": {"nvidia_uvm/uvm_disable_hmm": None}}, "wrong_module_parameter"),
            ({"character_devices": []}, "device_missing"),
            ({"nics": {"rdmap79s0": "efa", "mlx5_0": "mlx5_core"}}, "too_few_nics"),
            ({"num_gpus": 7}, "too_few_gpus"),
            ({"memlock_bytes": 65_536}, "memlock_too_low"),
        ],
    )
    def test_says_what_is_missing(self, changes: dict[str, Any], expected: str) -> None:
        """Each shortcoming has its code."""
        refusals = audit_refusals(NEEDS, {"node-0": good(**changes)})

        assert [(r.code, r.where) for r in refusals] == [(expected, "node node-0")]

    def test_takes_a_kernels_other_way_to_write_true(self) -> None:
        """Some versions write a boolean parameter as 1."""
        assert audit_refusals(NEEDS, {"node-0": good(parameters={"nvidia_uvm/uvm_disable_hmm": "1"})}) == []

    def test_refuses_nodes_that_differ(self) -> None:
        """Nodes of one start are alike, or the slower one is measured."""
        found = audit_refusals(NEEDS, {"node-0": good(), "node-1": good(kernel="6.1.170-200.amzn2023.x86_64")})

        assert [r.code for r in found] == ["nodes_unlike"]
        assert "node-1: 6.1.170-200.amzn2023.x86_64" in found[0].message

    def test_compares_versions_by_their_numbers(self) -> None:
        """3.10 is newer than 3.9, and a letter behind it changes nothing."""
        assert version_key("3.10.0g") == (3, 10, 0) > version_key("3.9.4")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine's files: two EFA devices, one module with a version and one without, a parameter."""
    for number, sent in ((79, 4096), (80, 0)):
        port = tmp_path / f"sys/class/infiniband/rdmap{number}s0/ports/1/hw_counters"
        port.mkdir(parents=True)
        (port / "rdma_write_bytes").write_text(f"{sent}\n")
        (port / "lifespan").write_text("12\n")
        words = port.parent / "counters"
        words.mkdir()
        (words / "port_xmit_data").write_text("10\n")
        (words / "port_rcv_data").write_text("N/A (no PMA)\n")
        driver = tmp_path / "sys/bus/pci/drivers/efa"
        driver.mkdir(parents=True, exist_ok=True)
        device = port.parents[2] / "device"
        device.mkdir()
        (device / "driver").symlink_to(driver)
    for name, version in (("efa", "3.3.0g"), ("nvidia_uvm", None)):
        module = tmp_path / "sys/module" / name
        (module / "parameters").mkdir(parents=True)
        if version:
            (module / "version").write_text(f"{version}\n")
    (tmp_path / "sys/module/nvidia_uvm/parameters/uvm_disable_hmm").write_text("Y\n")
    (tmp_path / "dev").mkdir()
    for name in ("nvidia0", "nvidia1", "nvidiactl", "gdrdrv"):
        (tmp_path / "dev" / name).touch()
    return tmp_path


class TestAudit:
    def test_reads_modules_parameters_and_nics(self, root: Path) -> None:
        """What the kernel shows is what is recorded; a plain file is no character device."""
        found = audit(root)

        assert found["modules"] == {"efa": "3.3.0g", "nvidia_uvm": ""}
        assert found["parameters"] == {"nvidia_uvm/uvm_disable_hmm": "Y"}
        assert found["nics"] == {"rdmap79s0": "efa", "rdmap80s0": "efa"}
        assert (found["num_gpus"], found["character_devices"], found["hugepages_2mi_free"]) == (2, [], 0)

    def test_sees_a_character_device(self) -> None:
        """On a real machine /dev/null is one; the check is the same."""
        from pathlib import Path

        from ep_worker.audit import _is_character_device

        assert _is_character_device(Path("/dev/null"))
        assert not _is_character_device(Path("/dev/nothing-of-this-name"))

    def test_writes_one_file(self, tmp_path: Path) -> None:
        """The command leaves `audit.json`."""
        assert main([str(tmp_path / "out")]) == 0

        assert json.loads((tmp_path / "out/audit.json").read_text())["schema"] == AUDIT_SCHEMA

    def test_refuses_other_arguments(self) -> None:
        """Exit status 2, as every command of the worker."""
        assert main([]) == 2


class TestSnapshot:
    def test_adds_up_ports_and_turns_words_into_bytes(self, root: Path) -> None:
        """10 words are 40 bytes; a counter that the kernel does not give is left out."""
        assert snapshot(root / "sys/class/infiniband")["rdmap79s0"] == {
            "driver": "efa",
            "counters": {"lifespan": 12, "port_xmit_data_bytes": 40, "rdma_write_bytes": 4096},
        }

    def test_is_empty_where_there_is_no_fabric(self, tmp_path: Path) -> None:
        """A machine without RDMA devices has none, which is no error."""
        assert snapshot(tmp_path / "none") == {}
