"""What adapters ask of a build and of a campaign before they make anything: every refusal, by hand-made modules."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import pytest
import torch
from worker.problems import CPU

from ep_worker.backends import build, deepep_v1, deepep_v2, uccl
from ep_worker.backends.knobs import chunk_sizes, even, take_knobs
from ep_worker.backends.protocol import Problem
from ep_worker.backends.uccl_buffer import UcclBuffer, check_raw
from ep_worker.contract.spec import Shape
from ep_worker.contract.terms import Dtype
from ep_worker.failure import MissingBackendError
from ep_worker.quantise import FP8, is_cast_of, quantise

SHAPE = Shape("tiny", tokens_per_rank=2, max_tokens_per_rank=2, hidden=128, experts=4, top_k=1)
PROBLEM = Problem(0, 2, SHAPE, Dtype.BF16, CPU, torch.zeros((2, 1), dtype=torch.int64), torch.ones((2, 1)), {})


def module(name: str, **attributes: object) -> ModuleType:
    """A module of a few attributes."""
    made = ModuleType(name)
    made.__file__ = f"/image/{name}/__init__.py"
    vars(made).update(attributes)
    return made


def test_a_module_without_a_buffer_is_not_deepep(monkeypatch):
    """The name alone proves nothing."""
    monkeypatch.setitem(sys.modules, "deep_ep", module("deep_ep"))

    with pytest.raises(MissingBackendError, match="has no Buffer: it is not DeepEP; build deepseek-ai/DeepEP"):
        deepep_v1.load()


def test_the_wrapper_of_uccl_is_not_deepep(monkeypatch, tmp_path):
    """UCCL ships a package named deep_ep: it serves backend uccl, with its path and digest, and V1 refuses it."""
    ep = "class Buffer: ...\nclass Proxy: ...\nConfig = None\n"
    buffer = "from uccl import ep\n\nclass Buffer: ...\n"
    files = {"uccl/__init__.py": "", "uccl/ep.py": ep, "deep_ep/__init__.py": "from .buffer import Buffer\n"}
    for name, text in {**files, "deep_ep/buffer.py": buffer}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        with pytest.raises(MissingBackendError, match="UCCL-EP's wrapper of that name"):
            deepep_v1.load()
        library, ours = uccl.load(), uccl.load("ours")
        assert library == uccl.load("shipped")
    finally:
        for name in ("deep_ep", "deep_ep.buffer", "uccl", "uccl.ep"):
            sys.modules.pop(name, None)

    assert "deep_ep.buffer" == library.buffer.__module__
    digest = hashlib.sha256(buffer.encode()).hexdigest()
    path = str(tmp_path / "deep_ep/buffer.py")
    assert {"wrapper": "shipped", "wrapper_file": path, "wrapper_sha256": digest} == library.extra
    assert ("ours", UcclBuffer) == (ours.extra["wrapper"], ours.buffer)


def test_a_wrapper_that_is_wanted_and_not_there_is_refused(monkeypatch):
    """An arm that names the shipped wrapper never runs on ours; an unknown name is refused."""
    monkeypatch.setitem(sys.modules, "uccl", module("uccl"))
    monkeypatch.setitem(sys.modules, "uccl.ep", module("uccl.ep", Buffer=object, Proxy=object, Config=None))
    monkeypatch.setattr(uccl, "shipped_wrapper", lambda: None)

    with pytest.raises(MissingBackendError, match="found no wrapper of UCCL-EP under the name deep_ep"):
        uccl.load("shipped")
    with pytest.raises(ValueError, match="knob 'wrapper' is 'theirs', expected shipped or ours"):
        uccl.load("theirs")
    assert "ours" == uccl.load().extra["wrapper"]


def test_a_v1_build_does_not_serve_v2(monkeypatch, tmp_path):
    """ElasticBuffer is what V2 is."""
    monkeypatch.setitem(sys.modules, "deep_ep", module("deep_ep", Buffer=object, __spec__=SimpleNamespace(origin=None)))
    monkeypatch.setenv("EP_JIT_CACHE_DIR", str(tmp_path))

    with pytest.raises(MissingBackendError, match="has no ElasticBuffer, which V2 is"):
        deepep_v2.load()


def test_an_empty_uccl_is_refused(monkeypatch):
    """A wheel without EP imports, and is said to be one."""
    monkeypatch.setitem(sys.modules, "uccl", module("uccl"))
    monkeypatch.setitem(sys.modules, "uccl.ep", module("uccl.ep"))

    with pytest.raises(MissingBackendError, match="it is a build without EP; build ep/ of uccl-project/uccl"):
        uccl.load()


def test_a_renamed_parameter_is_named():
    """What another version dropped is said, with what it takes."""
    with pytest.raises(MissingBackendError, match="f of this build has no b, it takes a: use a build that has them"):
        build.require_parameters(lambda a: a, "f", ("a", "b"))


def test_a_commit_is_read_from_beside_the_package(tmp_path):
    """A file COMMIT goes before the installation record; without either there is none."""
    assert build.source_commit(tmp_path, "no_such_package") is None
    (tmp_path / "COMMIT").write_text("dd758ca\n")

    assert "dd758ca" == build.source_commit(tmp_path, "no_such_package")


def test_unknown_and_mistyped_knobs_are_refused_together():
    """Both are said at once; True is no integer."""
    problem = replace(PROBLEM, knobs={"num_sm": 24, "num_sms": True})

    with pytest.raises(
        ValueError, match=r"'num_sm' is unknown.*; knob 'num_sms' is True, expected a value of type int"
    ):
        take_knobs(problem, {"num_sms": 20})
    assert {"num_sms": 24} == take_knobs(replace(PROBLEM, knobs={"num_sms": 24}), {"num_sms": 20})


@pytest.mark.parametrize("value", [0, -2, 21])
def test_sms_are_positive_and_even(value):
    """Channels take two."""
    with pytest.raises(ValueError, match=f"'num_sms' is {value}, expected a positive even number"):
        even("num_sms", value)


@pytest.mark.parametrize(
    "text", ["6,256,6", "6,256,6,128,1", "256,6,6,128", "6,256,128,6", "0,256,6,128", "a,256,6,128"]
)
def test_chunk_sizes_are_four_with_send_below_receive(text):
    """Anything else is refused; an empty text leaves them to the library."""
    with pytest.raises(ValueError, match="expected send,receive,rdma_send,rdma_receive"):
        chunk_sizes("dispatch_config", text)
    assert chunk_sizes("dispatch_config", "") is None
    assert (6, 256, 6, 128) == chunk_sizes("dispatch_config", "6,256,6,128")


@pytest.mark.parametrize("ids", [torch.zeros((2, 4), dtype=torch.int32), torch.zeros((4, 2), dtype=torch.int64).t()])
def test_raw_kernels_get_what_they_read(ids):
    """int32 or strided ids would be read as garbage."""
    with pytest.raises(ValueError, match="UCCL reads contiguous torch"):
        check_raw(ids, None)


def test_a_cast_is_known_to_one_rounding():
    """Our own cast passes, as does one that rounds the other way; a value two steps off, or another scale, does not."""
    x_TH = torch.linspace(-3, 3, 256).view(2, 128).bfloat16()
    q_TH, scale_TB = quantise(x_TH)
    kernel_TH = (x_TH.float() * (448.0 / x_TH.float().abs().amax(1, keepdim=True))).to(FP8)
    off_TH = q_TH.view(torch.uint8).clone()
    off_TH[1, 7] += 2

    assert [True, True] == is_cast_of(q_TH, scale_TB, x_TH).tolist()
    assert [True, True] == is_cast_of(kernel_TH, scale_TB, x_TH).tolist()
    assert [True, False] == is_cast_of(off_TH.view(FP8), scale_TB, x_TH).tolist()
    assert [False, False] == is_cast_of(q_TH, scale_TB * 1.001, x_TH).tolist()
