"""What a run of load is told, and the prompts that follow from it."""

from __future__ import annotations

import json

import pytest

from ep_load.prompts import prompt_text, request_bytes
from ep_load.spec import Arrivals, LoadSpec, Prompt, Stream, loads

PROMPT = Prompt("bytes", 40, 8, ignore_eos=True)
SPEC = LoadSpec(
    ("127.0.0.1:1",), "m", PROMPT, (Stream("cell", Arrivals.OPEN, "measured", offsets_s=(0.0, 0.5)),), seed=7
)


def test_a_specification_travels_whole() -> None:
    """What the generator reads is what was written."""
    assert SPEC == loads(SPEC.dumps())


@pytest.mark.parametrize("part", [(), ("prompt",), ("streams", 0)], ids=["whole", "prompt", "stream"])
def test_unknown_and_missing_fields_are_refused(part: tuple[str | int, ...]) -> None:
    """A field too many, anywhere, is an error and not a default."""
    value = json.loads(SPEC.dumps())
    inner = value
    for step in part:
        inner = inner[step]
    inner["surprise"] = 1
    with pytest.raises(ValueError, match="surprise"):
        loads(json.dumps(value))


@pytest.mark.parametrize("unit", ["bytes", "words"])
def test_prompts_have_their_length_and_are_unique(unit: str) -> None:
    """Forty units each; seed, stream and number make another prompt, and the same make the same."""
    prompt = Prompt(unit, 40, 8, ignore_eos=False)
    texts = [prompt_text(prompt, *key) for key in ((7, "a", 0), (7, "a", 1), (7, "b", 0), (8, "a", 0))]
    sizes = {len(text) if unit == "bytes" else len(text.split()) for text in texts}
    assert {40} == sizes
    assert 4 == len(set(texts))
    assert 4 == len({text[:12] for text in texts}), "unique from the first words on"
    assert texts[0] == prompt_text(prompt, 7, "a", 0)


def test_a_shared_prefix_is_shared() -> None:
    """As many units as asked for, and no more."""
    prompt = Prompt("bytes", 40, 8, ignore_eos=False, shared_prefix_units=24)
    first, second = prompt_text(prompt, 7, "a", 0), prompt_text(prompt, 7, "a", 1)
    assert 40 == len(first) == len(second)
    assert first[:24] == second[:24]
    assert first[24:] != second[24:]


def test_requests_as_they_travel() -> None:
    """A stream with its counts, decoded greedily, its length said; a probe of health is a GET."""
    head, _, body = request_bytes(SPEC, "/v1/completions", "h:1", "cell", 3).partition(b"\r\n\r\n")
    value = json.loads(body)
    assert head.startswith(b"POST /v1/completions HTTP/1.1\r\nhost: h:1\r\n")
    assert b"x-request-id: cell-3" in head
    assert f"content-length: {len(body)}".encode() in head
    assert (True, 0, 8, True) == (value["stream"], value["temperature"], value["max_tokens"], value["ignore_eos"])
    assert value["stream_options"]["include_usage"]
    assert b"GET /health HTTP/1.1\r\nhost: h:1\r\nx-request-id: p-0\r\n\r\n" == request_bytes(
        SPEC, "/health", "h:1", "p", 0
    )
    chat = json.loads(request_bytes(SPEC, "/v1/chat/completions", "h:1", "cell", 3).partition(b"\r\n\r\n")[2])
    assert value["prompt"] == chat["messages"][0]["content"]
