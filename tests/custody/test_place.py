"""What a place may say of custody, and under what name a results folder holds a lease."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from ep_campaign.custody.guard import FOLDER_ID_FILE, holder_of
from ep_campaign.custody.place import AuditSection, CustodySection, LeaseMode
from ep_campaign.custody.transport import Fabric

if TYPE_CHECKING:
    from pathlib import Path

DIGEST = "registry.example/audit@sha256:" + "0" * 64


class TestCustodySection:
    def test_takes_the_lease_unless_told_otherwise(self) -> None:
        """Nobody forgets the lease by leaving it out."""
        section = CustodySection()

        assert (section.lease.mode, section.lease.name, section.lease.duration_s) == (
            LeaseMode.EXCLUSIVE,
            "ep-campaign",
            60,
        )
        assert section.fabric is Fabric.SOCKET

    @pytest.mark.parametrize(
        "value",
        [
            {"lease": {"mode": "observe"}},
            {"lease": {"expected_holder": "platform-team"}},
            {"lease": {"name": "Has Capitals"}},
            {"lease": {"duration_s": 1}},
            {"nodes": {"resources": {"nvidia.com/gpu": 0}}},
            {"audit": {"image": "registry.example/audit:latest"}},
            {"fabric": "carrier-pigeon"},
            {"unknown": 1},
        ],
        ids=["nobody to observe", "somebody to observe", "name", "duration", "no devices", "tag", "fabric", "unknown"],
    )
    def test_refuses(self, value: dict[str, Any]) -> None:
        """A section that cannot be meant is refused."""
        with pytest.raises(ValidationError):
            CustodySection.model_validate(value)

    def test_what_a_place_asks_for_is_what_is_judged(self) -> None:
        """Every field of a section reaches the judge of its name."""
        audit = AuditSection(
            image=DIGEST,
            modules={"efa": "3.3.0"},
            parameters={"nvidia_uvm/uvm_disable_hmm": "Y"},
            character_devices=("/dev/gdrdrv",),
            nics={"efa": 16},
            num_gpus=8,
            memlock_bytes=9,
        ).needs()
        section = {
            "instance_type": "p5en.48xlarge",
            "resources": {"vpc.amazonaws.com/efa": 16},
            "protected": ["node-9"],
        }
        nodes = CustodySection.model_validate({"nodes": section}).nodes.needs(("node-0", "node-1"), 2, ("key", "value"))

        assert (audit.modules, audit.nics, audit.num_gpus, audit.memlock_bytes) == ({"efa": "3.3.0"}, {"efa": 16}, 8, 9)
        assert (audit.parameters, audit.character_devices) == ({"nvidia_uvm/uvm_disable_hmm": "Y"}, ("/dev/gdrdrv",))
        assert (nodes.names, nodes.num_nodes, nodes.own) == (("node-0", "node-1"), 2, ("key", "value"))
        assert (nodes.exclusive, nodes.protected) == (("vpc.amazonaws.com/efa",), ("node-9",))


class TestHolderOf:
    def test_is_the_same_for_a_folder_always(self, tmp_path: Path) -> None:
        """A controller that comes back asks under the name that its folder holds."""
        first = holder_of("smoke", tmp_path)

        assert holder_of("smoke", tmp_path) == first
        assert first.startswith("smoke/")
        assert len(first) == len("smoke/") + 12

    def test_is_another_for_a_copy(self, tmp_path: Path) -> None:
        """A copied folder is not the one that holds the kernel lock."""
        original = tmp_path / "original"
        original.mkdir()
        first = holder_of("smoke", original)

        shutil.copytree(original, tmp_path / "copy")

        assert holder_of("smoke", tmp_path / "copy") != first
        assert holder_of("smoke", original) == first

    def test_is_made_anew_where_its_file_is_damaged(self, tmp_path: Path) -> None:
        """A torn file costs a lease its short cut, nothing more."""
        first = holder_of("smoke", tmp_path)
        path = tmp_path / "logs" / FOLDER_ID_FILE
        path.write_text(path.read_text()[:9])

        second = holder_of("smoke", tmp_path)

        assert second != first
        assert json.loads(path.read_text())["id"] == second.removeprefix("smoke/")
