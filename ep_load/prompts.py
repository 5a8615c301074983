"""Prompts: seeded text, unique from its first words, so that no prefix cache answers for the engine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ep_worker.contract.canonical import sha256_text

if TYPE_CHECKING:
    from ep_load.spec import LoadSpec, Prompt

_TEXT = (
    "time year people way day man thing woman life child world school state family student group country problem hand part "
    "place case week company system program question work number night point home water room mother area money story fact "
    "month lot right study book eye job word business issue side kind head house service friend father power hour game line"
)
_WORDS = tuple(_TEXT.split())


def prompt_text(prompt: Prompt, seed: int, name: str, number: int) -> str:
    """The prompt of one request: words drawn by a hash of seed, stream and number, after what all prompts share."""
    shared = _units(prompt.unit, prompt.shared_prefix_units, f"{seed}/shared")
    own = _units(prompt.unit, prompt.num_units - prompt.shared_prefix_units, f"{seed}/{name}/{number}")
    return shared + own


def request_bytes(spec: LoadSpec, path: str, host: str, name: str, number: int) -> bytes:
    """A whole request as it goes over the wire; its id is in a header, so that server logs can be joined."""
    request_id = f"x-request-id: {name}-{number}"
    if path == "/health":
        return f"GET {path} HTTP/1.1\r\nhost: {host}\r\n{request_id}\r\n\r\n".encode()
    text = prompt_text(spec.prompt, spec.seed, name, number)
    asked = {"prompt": text} if path == "/v1/completions" else {"messages": [{"role": "user", "content": text}]}
    options = {"include_usage": True, "continuous_usage_stats": True}
    body = {"model": spec.model, "stream": True, "stream_options": options, "temperature": 0, **asked}
    body |= {"max_tokens": spec.prompt.max_tokens, "ignore_eos": spec.prompt.ignore_eos}
    data = json.dumps(body, separators=(",", ":")).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n{request_id}\r\n"
    return f"{head}content-length: {len(data)}\r\n\r\n".encode() + data


def _units(unit: str, count: int, key: str) -> str:
    words: list[str] = []
    num_units, block = 0, 0
    while num_units < count:
        digest = bytes.fromhex(sha256_text(f"{key}/{block}"))
        for one in digest:
            words.append(_WORDS[one % len(_WORDS)])
            num_units += len(words[-1]) + 1 if unit == "bytes" else 1
        block += 1
    if unit == "bytes":
        return (" ".join(words) + " ")[:count]
    return " ".join(words[:count]) + (" " if count else "")
