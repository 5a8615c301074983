"""Strict JSON: a file that is whole, an object, without duplicate keys, and without a number that is none."""

from __future__ import annotations

import json
import math
import re
import stat
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from ep_campaign.errors import CampaignError, Refusal, refuse

if TYPE_CHECKING:
    from pathlib import Path

Model = TypeVar("Model", bound=BaseModel)

MAX_FILE_BYTES = 64 << 20
"""Largest JSON file that is read: a start of 64 cells in every boundary and mode is below 2 MiB."""
MAX_INTEGER = 2**63 - 1
MAX_SHOWN_CHARS = 80
_MAY_BE_TOO_LARGE = re.compile(r"[ \n\r\t:,\[]-?[0-9](?:[0-9]{18}|[0-9.]*[eE]\+?[0-9]{3})")
"""What every number above 2^63 or beyond a float's range holds; a text without it needs no look at each number."""


def read_object(path: Path, where: str) -> dict[str, Any]:
    """The object that a JSON file holds.

    Args:
        path: File.
        where: How messages name it.

    Raises:
        CampaignError: `missing_file`, `unreadable_file`, `file_too_large`, `not_json`, `not_an_object`, `duplicate_key`,
            `not_finite` or `number_too_large`.
    """
    try:
        entry = path.stat()
        if not stat.S_ISREG(entry.st_mode):
            raise refuse("unreadable_file", "is no regular file; expected a text file", where)
        size = entry.st_size
        if size > MAX_FILE_BYTES:
            raise refuse("file_too_large", f"is {size} bytes, at most {MAX_FILE_BYTES} are read", where)
        text = path.read_text(encoding="ascii")
    except FileNotFoundError:
        raise refuse("missing_file", "there is no such file", where) from None
    except (OSError, UnicodeDecodeError) as error:
        raise refuse("unreadable_file", f"cannot be read as ASCII text: {error}", where) from None
    return parse_object(text, where)


def parse_object(text: str, where: str) -> dict[str, Any]:
    """The object that a JSON text holds; raises as `read_object` does."""
    suspicious = _MAY_BE_TOO_LARGE.search(text) is not None
    try:
        value = json.loads(
            text,
            parse_constant=lambda word: _bad_number("not_finite", word, where),
            parse_float=(lambda digits: _float(digits, where)) if suspicious else None,
            parse_int=(lambda digits: _integer(digits, where)) if suspicious else None,
            object_pairs_hook=lambda pairs: _unique(pairs, where),
        )
    except (ValueError, RecursionError) as error:
        message = f"is not JSON ({error}): cut short, or altered after it was written"
        raise refuse("not_json", message, where) from None
    if not isinstance(value, dict):
        raise refuse("not_an_object", f"holds a {type(value).__name__}, expected an object", where)
    return value


def as_model(model: type[Model], value: dict[str, Any], code: str, where: str) -> Model:
    """The value as a model.

    Raises:
        CampaignError: `code`, once for each field that is missing, unknown or wrong.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise CampaignError([_refusal(item, code, where) for item in error.errors(include_url=False)]) from None


def shown(value: Any) -> str:
    """A value as messages quote it: short."""
    text = repr(value)
    return text if len(text) <= MAX_SHOWN_CHARS else text[:MAX_SHOWN_CHARS] + "..."


def _refusal(item: Any, code: str, where: str) -> Refusal:
    place = ".".join(str(part) for part in item["loc"]) or "(top level)"
    found = "" if item["type"] == "missing" else f"found {shown(item['input'])}: "
    return Refusal(code, f"{found}{item['msg']}", f"{where}: {place}")


def _bad_number(code: str, digits: str, where: str) -> NoReturn:
    raise refuse(code, f"holds the number {digits[:MAX_SHOWN_CHARS]}, expected a finite one below 2^63", where)


def _float(digits: str, where: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        _bad_number("not_finite", digits, where)
    return value


def _integer(digits: str, where: str) -> int:
    if len(digits) > len(str(-MAX_INTEGER)) or abs(int(digits)) > MAX_INTEGER:
        _bad_number("number_too_large", digits, where)
    return int(digits)


def _unique(pairs: list[tuple[str, Any]], where: str) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise refuse("duplicate_key", f"key {shown(twice)} stands twice in one object", where)
    return value
