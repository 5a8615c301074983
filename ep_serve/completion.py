"""The completion calls of the OpenAI API: what a body asks for, and what its answer looks like."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ep_serve.settings import EOS_TOKEN, NUM_BYTE_TOKENS

if TYPE_CHECKING:
    from ep_serve.request import Token
    from ep_serve.settings import Settings

_DEFAULT_MAX_TOKENS = 16


class RefusedError(Exception):
    """A body that cannot be served; carries the status to say."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Asked:
    """What a body asks for.

    Attributes:
        chat: Whether it is a chat.
        tokens: The prompt.
        max_tokens: Tokens to make at most.
        ignore_eos: Whether the end mark ends nothing.
        stream: Whether tokens are sent as they come.
        usage_at_end: Whether a stream ends with the counts.
        usage_always: Whether every event carries them.
        logprobs: Whether log probabilities are wanted.
    """

    chat: bool
    tokens: list[int]
    max_tokens: int
    ignore_eos: bool
    stream: bool
    usage_at_end: bool
    usage_always: bool
    logprobs: bool


def read_body(body: bytes, settings: Settings, *, chat: bool) -> Asked:
    """Reads a body.

    Raises:
        RefusedError: It cannot be served.
    """
    try:
        value = json.loads(body)
    except ValueError as error:
        raise RefusedError(f"the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise RefusedError(f"the body is a {type(value).__name__}, expected an object")
    model = value.get("model", settings.model_name)
    if model != settings.model_name:
        raise RefusedError(f"The model `{model}` does not exist.", 404)
    if value.get("temperature") not in (None, 0, 0.0) or value.get("n", 1) != 1:
        raise RefusedError("this engine decodes greedily and once: temperature must be 0 and n must be 1")
    tokens = _chat_tokens(value) if chat else _prompt_tokens(value)
    options = value.get("stream_options") or {}
    return Asked(
        chat=chat,
        tokens=tokens,
        max_tokens=_max_tokens(value, len(tokens), settings, chat=chat),
        ignore_eos=bool(value.get("ignore_eos", False)),
        stream=bool(value.get("stream", False)),
        usage_at_end=bool(options.get("include_usage", False)),
        usage_always=bool(options.get("continuous_usage_stats", False)),
        logprobs=value.get("logprobs") not in (None, False),
    )


def encode(text: str) -> list[int]:
    """Tokens of a text: its bytes."""
    return list(text.encode())


def decode(token: int) -> str:
    """Text of a token: one character for each byte, so that tokens can be read back; nothing for the end mark."""
    return "" if token == EOS_TOKEN else chr(token)


def error_body(message: str, status: int) -> dict[str, Any]:
    """A refusal as the API says it."""
    kind = {400: "BadRequestError", 404: "NotFoundError"}.get(status, "InternalServerError")
    return {"error": {"message": message, "type": kind, "param": None, "code": status}}


class Writer:
    """Forms the answers of one request."""

    def __init__(self, asked: Asked, number: int, model_name: str) -> None:
        self._asked, self._model_name = asked, model_name
        self.name = f"{'chatcmpl' if asked.chat else 'cmpl'}-{number}"
        self._created = int(time.time())
        self._num_made = 0

    def opening(self) -> bytes | None:
        """The event before the first token; only a chat has one, which names the role."""
        if not self._asked.chat:
            return None
        return self._event([{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}])

    def token(self, token: Token) -> bytes:
        """The event of a token."""
        self._num_made += 1
        return self._event([self._choice(decode(token.token), [token], token.finish, streamed=True)])

    def closing(self) -> bytes | None:
        """The event with the counts, where it is wanted."""
        return self._event([], counted=True) if self._asked.usage_at_end else None

    def whole(self, tokens: list[Token]) -> dict[str, Any]:
        """The answer to a request that is not streamed."""
        self._num_made = len(tokens)
        text = "".join(decode(token.token) for token in tokens)
        choice = self._choice(text, tokens, tokens[-1].finish, streamed=False)
        kind = "chat.completion" if self._asked.chat else "text_completion"
        return {**self._frame(kind), "choices": [choice], "usage": self._usage()}

    def _choice(self, text: str, tokens: list[Token], finish: str | None, *, streamed: bool) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": 0, "finish_reason": finish, "logprobs": None}
        if self._asked.chat:
            choice["delta" if streamed else "message"] = (
                {"content": text} if streamed else {"role": "assistant", "content": text}
            )
        else:
            choice["text"] = text
        if self._asked.logprobs:
            choice["logprobs"] = {"token_logprobs": [token.logprob for token in tokens]}
        return choice

    def _event(self, choices: list[dict[str, Any]], *, counted: bool = False) -> bytes:
        kind = "chat.completion.chunk" if self._asked.chat else "text_completion"
        value = {**self._frame(kind), "choices": choices}
        if counted or self._asked.usage_always:
            value["usage"] = self._usage()
        return json.dumps(value, separators=(",", ":")).encode()

    def _frame(self, kind: str) -> dict[str, Any]:
        return {"id": self.name, "object": kind, "created": self._created, "model": self._model_name}

    def _usage(self) -> dict[str, int]:
        num_prompt = len(self._asked.tokens)
        return {
            "prompt_tokens": num_prompt,
            "completion_tokens": self._num_made,
            "total_tokens": num_prompt + self._num_made,
        }


def _prompt_tokens(value: dict[str, Any]) -> list[int]:
    prompt = value.get("prompt")
    if isinstance(prompt, str):
        tokens = encode(prompt)
    elif isinstance(prompt, list) and all(type(one) is int and 0 <= one < NUM_BYTE_TOKENS for one in prompt):
        tokens = prompt
    else:
        raise RefusedError("prompt must be one text, or a list of byte tokens from 0 to 255")
    if not tokens:
        raise RefusedError("prompt is empty")
    return tokens


def _chat_tokens(value: dict[str, Any]) -> list[int]:
    messages = value.get("messages")
    fits = isinstance(messages, list) and all(
        isinstance(one, dict) and isinstance(one.get("role"), str) and isinstance(one.get("content"), str)
        for one in messages
    )
    if not messages or not fits:
        raise RefusedError("messages must be a list of objects with a text each for role and content")
    return encode("".join(f"{one['role']}: {one['content']}\n" for one in messages) + "assistant: ")


def _max_tokens(value: dict[str, Any], num_prompt: int, settings: Settings, *, chat: bool) -> int:
    room = settings.max_len - num_prompt
    asked = value.get("max_completion_tokens") or value.get("max_tokens")
    if asked is None:
        asked = room if chat else min(room, _DEFAULT_MAX_TOKENS)
    if type(asked) is not int or asked < 1 or asked > room:
        raise RefusedError(
            f"This model's maximum context length is {settings.max_len} tokens; the prompt has {num_prompt} and "
            f"max_tokens is {asked!r}, expected at least 1 and no more than both fit"
        )
    return asked
