"""Transport proofs from logs as the libraries write them, and from NIC counters."""

from __future__ import annotations

import pytest

from ep_campaign.custody.netlog import MAX_KEPT_LINES, read_log
from ep_campaign.custody.transport import (
    Fabric,
    Outcome,
    Proof,
    Stack,
    environment,
    judge_counters,
    judge_log,
    moved_bytes,
    stack_of,
    worst,
)

# The shapes of these lines are those of public logs: NVIDIA/nccl issues 229, 1597 and 1913; aws/aws-ofi-nccl issues 803, 889 and
# 1020; uccl-project/uccl issue 937; deepseek-ai/DeepEP issues 38 and 128; NVIDIA/nvshmem issue 87.
NCCL_EFA = """\
p6-0:6831:6840 [0] NCCL INFO NCCL version 2.31.2+cuda13.0
p6-0:6831:6840 [0] NCCL INFO NET/Plugin: Loaded net plugin Libfabric (v11)
p6-0:6831:6840 [0] NCCL INFO NET/OFI Initializing aws-ofi-nccl 1.21.0
p6-0:6831:6840 [0] NCCL INFO NET/OFI Using Libfabric version 2.6
p6-0:6831:6840 [0] NCCL INFO NET/OFI Selected provider is efa, fabric is efa-direct (found 8 nics)
p6-0:6831:6840 [0] NCCL INFO Using network Libfabric
p6-0:6831:6912 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
p6-0:6831:6912 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/Libfabric/0/GDRDMA
p6-0:6831:6912 [0] NCCL INFO Channel 01/0 : 0[0] -> 8[0] [send] via NET/Libfabric/4(3)/GDRDMA
"""
NCCL_OLD = """\
ip-192-168-16-255:35480:35545 [0] NCCL INFO NET/OFI Selected Provider is efa (found 4 nics)
ip-192-168-16-255:35480:35545 [0] NCCL INFO Using network AWS Libfabric
ip-192-168-29-243:26465:26533 [0] NCCL INFO Ring 00 : 7 -> 8 [receive] via NET/AWS Libfabric/0
"""
NCCL_SOCKET = """\
p6-0:79:79 [0] NCCL INFO NCCL version 2.31.2+cuda13.0
libfabric:85:1747438790::core:core:fi_getinfo_():1392<warn> fi_getinfo: provider efa output empty list
p6-0:79:79 [0] NCCL INFO Failed to initialize NET plugin IB
p6-0:79:79 [0] NCCL INFO NET/Socket : Using [0]eth0:10.36.29.253<0>
p6-0:79:79 [0] NCCL INFO Using network Socket
p6-0:79:91 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/Socket/0
"""
NCCL_TCP_BEHIND_THE_PLUGIN = """\
p6-0:79:79 [0] NCCL INFO NET/Plugin: Loaded net plugin Libfabric (v11)
p6-0:79:79 [0] NCCL INFO NET/OFI Initializing aws-ofi-nccl 1.21.0
p6-0:79:79 [0] NCCL INFO NET/OFI Selected provider is tcp;ofi_rxm, fabric is 10.36.0.0/16 (found 1 nics)
p6-0:79:79 [0] NCCL INFO Using network Libfabric
"""
GIN_ASSIGNED = """\
p6-0:6831:6840 [0] NCCL INFO GIN/Plugin: Loaded gin plugin Libfabric_GDAKI (v14)
p6-0:6831:6840 [0] NCCL INFO GIN/Plugin: Skipping plugin Libfabric index 3 type 2: NCCL_GIN_TYPE=5 requested
p6-0:6831:6840 [0] NCCL INFO NET/Libfabric_GDAKI : GPU Direct RDMA Enabled for HCA 0 'rdmap86s0'
p6-0:6831:6840 [0] NCCL INFO GIN/Plugin: Assigned plugin Libfabric_GDAKI type 5 to comm
"""
GIN_FAILED = """\
p6-0:6831:6840 [0] NCCL WARN NET/OFI Failed to initialize GDRCopy: Failed to open gdr handle
p6-0:6831:6840 [0] NCCL INFO GIN/Plugin: Loaded gin plugin Libfabric_GDAKI (v14)
p6-0:6831:6840 [0] NCCL INFO NET/OFI gin: Initializing
p6-0:6831:6840 [0] NCCL INFO GIN/Plugin: Failed to initialize any GIN plugin
"""
GIN_PROXY = """\
p6-0:6831:6840 [0] NCCL INFO GIN/Plugin: Loaded gin plugin Libfabric_GDAKI (v14)
p6-0:6831:6840 [0] NCCL INFO GIN/Plugin: Assigned plugin Libfabric type 2 to comm
"""
NVSHMEM = """\
  NVSHMEM_REMOTE_TRANSPORT     "libfabric" (type: string, default: "ibrc")
  NVSHMEM_LIBFABRIC_PROVIDER   "efa" (type: string, default: "cxi")
p6-0:1698:1698 [6] NVSHMEM INFO NVSHMEM_ENABLE_NIC_PE_MAPPING = 0, device 0 setting dev_id = 7
p6-0:1698:1698 [6] NVSHMEM INFO Selected remote transport: libfabric
libfabric:1698:1753871168::core:core:ofi_register_provider():514<info> registering provider: efa (206.0)
libfabric:1698:1753871168:efa:fabric:efa_fabric():101<info> Opened fabric: efa-direct
"""
NVSHMEM_SILENT_FALLBACK = """\
p6-0:1698:1698 [6] NVSHMEM INFO NVSHMEM_IB_ENABLE_IBGDA = 1
p6-0:1698:1698 [6] NVSHMEM INFO Selected remote transport: ibrc
"""
UCCL = """\
[RDMA] Selected NIC rdmap79s0 (index 0) for GPU 0, NUMA node 0
[RDMA] Selected NIC rdmap96s0 (index 4) for GPU 1, NUMA node 0
Registered proxies for device 0
"""
UCCL_FAILED = """\
[RDMA] Selected NIC rdmap86s0 (index 1) for GPU 0, NUMA node 0
RDMA buffer MR registration failed: Invalid argument
"""


class TestReadLog:
    def test_reads_what_nccl_says_of_itself(self) -> None:
        """Version, network, provider with its NICs, fabric, and connections by kind."""
        found = read_log(NCCL_EFA)

        assert found.nccl_versions == {"2.31.2"}
        assert found.networks == {"Libfabric"}
        assert found.providers == {"efa": 8}
        assert found.fabrics == {"efa-direct"}
        assert dict(found.channels) == {"P2P/CUMEM": 1, "NET/Libfabric/GDRDMA": 2}
        assert found.failures == []

    def test_reads_older_wordings(self) -> None:
        """`Selected Provider`, `AWS Libfabric` and `Ring` are what earlier versions print."""
        found = read_log(NCCL_OLD)

        assert (found.networks, found.providers) == ({"AWS Libfabric"}, {"efa": 4})
        assert dict(found.channels) == {"NET/AWS Libfabric": 1}

    def test_takes_a_registered_provider_for_nothing(self) -> None:
        """libfabric registers every provider that it was built with; only an opened fabric counts."""
        found = read_log("libfabric:1:2::core:core:ofi_register_provider():514<info> registering provider: efa (206.0)")

        assert (found.providers, found.fabrics, found.lines) == ({}, set(), [])

    def test_keeps_a_bounded_number_of_lines(self) -> None:
        """A log of a thousand connections becomes evidence of forty lines; the counts are whole."""
        log = "".join(
            f"h:1:1 [0] NCCL INFO Channel {i:02d}/0 : 0[0] -> 8[0] [send] via NET/Libfabric/{i}\n" for i in range(1000)
        )

        found = read_log(log)

        assert (len(found.lines), found.channels["NET/Libfabric"]) == (MAX_KEPT_LINES, 1000)

    def test_says_nothing_of_a_log_without_any_such_line(self) -> None:
        """Other programs' lines are not evidence."""
        assert read_log("loading weights\nUsing network of experts\n").lines == []


class TestJudgeLog:
    @pytest.mark.parametrize(
        ("stack", "log"),
        [
            (Stack.NCCL, NCCL_EFA),
            (Stack.NCCL, NCCL_OLD),
            (Stack.NCCL_GIN, NCCL_EFA + GIN_ASSIGNED),
            (Stack.NVSHMEM, NVSHMEM),
            (Stack.NVSHMEM, NVSHMEM + NCCL_EFA),
            (Stack.UCCL, UCCL),
        ],
        ids=["nccl", "nccl, older", "gin", "nvshmem", "nvshmem beside nccl", "uccl"],
    )
    def test_is_proved_by_the_line_that_says_so(self, stack: Stack, log: str) -> None:
        """EFA is proved where the stack's own library says that it uses it."""
        proof = judge_log(stack, Fabric.EFA, read_log(log), num_nics=4 if stack is Stack.NCCL else 0)

        assert (proof.outcome, proof.reason_code) == (Outcome.PROVED, "")
        assert proof.admissible
        assert proof.evidence

    @pytest.mark.parametrize(
        ("stack", "log", "code"),
        [
            (Stack.NCCL, NCCL_SOCKET, "transport_failed"),
            (Stack.NCCL, NCCL_SOCKET.replace("provider efa output empty list", ""), "socket_fallback"),
            (Stack.NCCL, NCCL_TCP_BEHIND_THE_PLUGIN, "wrong_provider"),
            (Stack.NCCL_GIN, NCCL_EFA + GIN_FAILED, "transport_failed"),
            (Stack.NCCL_GIN, NCCL_EFA + GIN_PROXY, "wrong_gin_plugin"),
            (Stack.NVSHMEM, NVSHMEM_SILENT_FALLBACK, "wrong_nvshmem_transport"),
            (Stack.NVSHMEM, NVSHMEM.replace('"efa"', '"cxi"'), "wrong_provider"),
            (Stack.UCCL, UCCL_FAILED, "transport_failed"),
            (Stack.UCCL, UCCL.replace("rdmap96s0", "ibp198s0f0"), "wrong_nic"),
            (Stack.GLOO, "", "socket_fallback"),
        ],
    )
    def test_is_refuted_by_what_was_used_instead(self, stack: Stack, log: str, code: str) -> None:
        """Sockets, another provider, another plugin, another NIC: inadmissible, each with its code."""
        proof = judge_log(stack, Fabric.EFA, read_log(log))

        assert (proof.outcome, proof.reason_code, proof.admissible) == (Outcome.REFUTED, code, False)

    @pytest.mark.parametrize(
        ("stack", "log", "code"),
        [
            (Stack.NCCL, "", "no_provider_line"),
            (Stack.NCCL, "h:1:1 [0] NCCL INFO NET/OFI Selected provider is efa\n", "no_network_line"),
            (Stack.NCCL_GIN, NCCL_EFA + GIN_ASSIGNED.replace("Assigned", "Considered"), "no_gin_line"),
            (Stack.NVSHMEM, NCCL_EFA, "no_nvshmem_line"),
            (Stack.UCCL, NCCL_EFA, "no_uccl_line"),
        ],
    )
    def test_a_silent_log_proves_nothing(self, stack: Stack, log: str, code: str) -> None:
        """What is not said is not admissible: a loaded plugin, a banner, another library's line prove nothing."""
        proof = judge_log(stack, Fabric.EFA, read_log(log))

        assert (proof.outcome, proof.reason_code, proof.admissible) == (Outcome.SILENT, code, False)

    def test_refuses_fewer_nics_than_the_pod_was_given(self) -> None:
        """Eight found of sixteen is half the fabric."""
        assert judge_log(Stack.NCCL, Fabric.EFA, read_log(NCCL_EFA), num_nics=16).reason_code == "too_few_nics"

    def test_failed_gin_is_no_fault_of_an_arm_that_does_not_use_it(self) -> None:
        """Plain NCCL measures without GIN."""
        assert judge_log(Stack.NCCL, Fabric.EFA, read_log(NCCL_EFA + GIN_FAILED)).admissible

    def test_infiniband_is_proved_by_its_own_names(self) -> None:
        """NCCL's name for verbs is IB, NVSHMEM's GPU-initiated one is IBGDA."""
        ib = "h:1:1 [0] NCCL INFO Using network IB\n"
        ibgda = "h:1:1 [0] NVSHMEM INFO Successfully initialized the transport: IBGDA. It will be used.\n"

        assert judge_log(Stack.NCCL, Fabric.INFINIBAND, read_log(ib)).admissible
        assert judge_log(Stack.NVSHMEM, Fabric.INFINIBAND, read_log(ibgda)).admissible
        assert not judge_log(Stack.NVSHMEM, Fabric.INFINIBAND, read_log(ib)).admissible

    def test_asks_for_no_proof_where_no_fabric_is_asked_for(self) -> None:
        """CPU arms over gloo are what they say."""
        assert judge_log(Stack.GLOO, Fabric.SOCKET, read_log("")).admissible


def nic(**counters: int) -> dict[str, dict[str, int]]:
    return {"rdmap79s0": counters}


class TestJudgeCounters:
    def test_is_proved_by_bytes_that_went_through_the_nics(self) -> None:
        """1,000,000 bytes counted for 900,000 that the route sends."""
        before = {**nic(rdma_write_bytes=500), "rdmap80s0": {"rdma_write_bytes": 7}}
        after = {**nic(rdma_write_bytes=1_000_500), "rdmap80s0": {"rdma_write_bytes": 7}}

        proof = judge_counters(before, after, 900_000)

        assert proof.reason == "1 of 2 NICs sent 1000000 bytes, at least 900000 were to be sent"
        assert proof.admissible

    def test_is_refuted_where_the_bytes_went_elsewhere(self) -> None:
        """Counters that stand still while the route sent a gigabyte: something else carried it."""
        proof = judge_counters(nic(rdma_write_bytes=500), nic(rdma_write_bytes=9_000), 1_000_000_000)

        assert (proof.outcome, proof.reason_code) == (Outcome.REFUTED, "bytes_not_on_fabric")

    @pytest.mark.parametrize(
        ("before", "after", "code"),
        [
            ({}, {}, "no_nic_counters"),
            (nic(rdma_write_bytes=5), {"rdmap80s0": {"rdma_write_bytes": 5}}, "nic_reset"),
            (nic(rdma_write_bytes=5_000), nic(rdma_write_bytes=4), "nic_reset"),
        ],
        ids=["none", "vanished", "backwards"],
    )
    def test_is_silent_without_sound_counters(self, before: object, after: object, code: str) -> None:
        """No counters, or those of a device that was reset, prove nothing."""
        proof = judge_counters(before, after, 100)  # type: ignore[arg-type]

        assert (proof.outcome, proof.reason_code, proof.admissible) == (Outcome.SILENT, code, False)

    def test_takes_the_largest_of_what_drivers_count(self) -> None:
        """EFA counts writes and answers to reads (30 + 12) apart from all transmitted (40); InfiniBand counts one number."""
        assert (
            moved_bytes(
                {"rdma_write_bytes": 0, "rdma_read_resp_bytes": 0, "tx_bytes": 0},
                {"rdma_write_bytes": 30, "rdma_read_resp_bytes": 12, "tx_bytes": 40},
            )
            == 42
        )
        assert moved_bytes({"port_xmit_data_bytes": 4}, {"port_xmit_data_bytes": 400}) == 396

    def test_the_worst_pod_decides(self) -> None:
        """One pod over sockets makes the start inadmissible, whatever the others say."""
        proofs = [Proof(outcome, "", "") for outcome in (Outcome.PROVED, Outcome.REFUTED, Outcome.SILENT)]

        assert worst(proofs).outcome is Outcome.REFUTED


def test_each_backend_has_its_stack() -> None:
    """Portable arms go over torch's process group."""
    assert [stack_of(name) for name in ("deepep-v2", "deepep-v1", "uccl", "torch-a2a")] == [
        Stack.NCCL_GIN,
        Stack.NVSHMEM,
        Stack.UCCL,
        Stack.NCCL,
    ]


def test_verbose_variables_are_those_of_the_stack() -> None:
    """Every GPU stack has NCCL speak; NVSHMEM also speaks itself; gloo has nothing to say."""
    assert environment(Stack.GLOO) == {}
    assert environment(Stack.NVSHMEM)["NVSHMEM_DEBUG"] == "INFO"
    assert all(environment(stack)["NCCL_DEBUG"] == "INFO" for stack in Stack if stack is not Stack.GLOO)
