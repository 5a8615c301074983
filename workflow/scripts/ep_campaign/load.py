"""From a YAML file to a checked `Campaign`: every fault of the file at once, each with its place and remedy."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from ep_campaign.campaign import Campaign
from ep_campaign.checks import problems, with_shape
from ep_campaign.errors import CampaignError, Refusal, refuse
from ep_campaign.regression_checks import profile_source_problems, with_sweep

if TYPE_CHECKING:
    from pathlib import Path

Model = TypeVar("Model", bound=BaseModel)

_CODES = {
    "extra_forbidden": "unknown_key",
    "missing": "missing_key",
    "too_short": "empty_matrix",
    "enum": "unknown_value",
    "literal_error": "unknown_value",
}
"""pydantic's error types that have a name of their own here; the rest are `bad_value`."""


_MAX_NUMBER_CHARS = 100
_NEAR = 0.7
"""Likeness from which a known key is suggested for an unknown one; below it suggestions mislead."""


class _StrictLoader(yaml.SafeLoader):
    """YAML's safe loader without its surprises: a later duplicate key replaces none, and `1:30:00` is not 5400."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """A mapping, unless a key stands in it twice."""
        seen: set[Any] = set()
        for key_node, _ in node.value:
            line = key_node.start_mark.line + 1
            if key_node.tag == "tag:yaml.org,2002:merge":
                msg = f"merge key << (line {line}) is not taken, a reader must see each value: write the keys out"
                raise yaml.YAMLError(msg)
            if not isinstance(key_node, yaml.ScalarNode):
                msg = f"a list or mapping stands as a key (line {line}): a key is a word"
                raise yaml.YAMLError(msg)
            key = self.construct_object(key_node, deep=deep)
            if key in seen:
                msg = f"key {key!r} stands twice in one mapping (line {line}): keep one"
                raise yaml.YAMLError(msg)
            seen.add(key)
        return super().construct_mapping(node, deep=deep)

    def construct_number(self, node: yaml.ScalarNode) -> int | float:
        """A number, unless YAML 1.1 would read it in base 60 or it has more digits than any field takes."""
        line = node.start_mark.line + 1
        if ":" in node.value:
            msg = f"{node.value[:40]!r} (line {line}) would be read in base 60: write a plain number, or quote a text"
            raise yaml.YAMLError(msg)
        if len(node.value) > _MAX_NUMBER_CHARS:
            msg = (
                f"a number of {len(node.value)} characters (line {line}): no field takes one above {_MAX_NUMBER_CHARS}"
            )
            raise yaml.YAMLError(msg)
        is_integer = node.tag == "tag:yaml.org,2002:int"
        return self.construct_yaml_int(node) if is_integer else self.construct_yaml_float(node)


for _kind in ("int", "float"):
    _StrictLoader.add_constructor(f"tag:yaml.org,2002:{_kind}", _StrictLoader.construct_number)


def read_yaml(path: Path) -> Any:
    """The value of a YAML file.

    Raises:
        CampaignError: The file is missing, unreadable, not UTF-8, or not YAML.
    """
    try:
        text = path.read_text(encoding="utf-8")
        return yaml.load(text, Loader=_StrictLoader)  # noqa: S506 - derived from SafeLoader
    except FileNotFoundError:
        known = ", ".join(sorted(p.stem for p in path.parent.glob("*.yaml"))) or "none"
        raise refuse("no_such_file", f"there is no such file; its folder holds: {known}", str(path)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise refuse("unreadable_file", f"cannot be read as UTF-8 text: {error}", str(path)) from None
    except RecursionError:
        raise refuse("not_yaml", "is nested too deeply to be read", str(path)) from None
    except (yaml.YAMLError, ValueError) as error:
        raise refuse("not_yaml", " ".join(str(error).split()), str(path)) from None


def read_model(path: Path, model: type[Model], code: str) -> Model:
    """The value of a YAML file as a model.

    Raises:
        CampaignError: The file cannot be read; or, under `code`, with everything that is wrong with it.
    """
    value = read_yaml(path)
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise CampaignError(
            [
                Refusal(code, item["msg"], f"{path}: {'.'.join(map(str, item['loc'])) or '(top level)'}")
                for item in error.errors()
            ]
        ) from None


def load_campaign(path: Path, shapes_path: Path) -> Campaign:
    """A campaign with every shape filled in.

    Raises:
        CampaignError: With every refusal that the file earns.
    """
    value = read_yaml(path)
    where = str(path)
    campaign = as_campaign(Campaign, value, where)
    given_twice = list(profile_source_problems(campaign))
    if not given_twice:
        campaign = with_sweep(campaign)
    shapes = read_yaml(shapes_path)
    found = [*given_twice, *problems(campaign, path, shapes)]
    refusals = [Refusal(code, message, f"{where}: {field}") for code, field, message in found]
    if refusals:
        raise CampaignError(refusals)
    filled = tuple(with_shape(profile, shapes) for profile in campaign.profiles)
    return campaign.model_copy(update={"profiles": filled})


def as_campaign(model: type[Model], value: Any, where: str) -> Model:
    """What a campaign file holds, as the model of its kind.

    Raises:
        CampaignError: With every refusal that single fields earn.
    """
    if not isinstance(value, dict):
        raise refuse("not_a_mapping", f"holds a {type(value).__name__}, expected a mapping of campaign fields", where)
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise CampaignError([_refusal(model, where, item) for item in _causes(error.errors())]) from None


def _causes(errors: list[Any]) -> list[Any]:
    """Errors without the ones that only follow: a list whose one item is bad is also reported as too short."""
    return [
        item
        for item in errors
        if item["type"] != "too_short"
        or not any(
            len(other["loc"]) > len(item["loc"]) and other["loc"][: len(item["loc"])] == item["loc"] for other in errors
        )
    ]


def _refusal(model: type[BaseModel], where: str, item: Any) -> Refusal:
    place = ".".join(str(part) for part in item["loc"]) or "(top level)"
    code = _CODES.get(item["type"], "bad_value")
    message = item["msg"].removeprefix("Value error, ")
    if code == "unknown_key":
        near = difflib.get_close_matches(str(item["loc"][-1]), _keys_at(model, item["loc"][:-1]), n=1, cutoff=_NEAR)
        message = f"unknown key{f'; did you mean {near[0]!r}?' if near else ''}"
    elif item["type"] != "missing" and not isinstance(item["input"], dict | list):
        message = f"found {item['input']!r}: {message}"
    if "pinned by digest" in message:
        code = "image_not_by_digest"
    return Refusal(code, message, f"{where}: {place}")


def _keys_at(root: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    model: Any = root
    for part in location:
        if isinstance(part, str) and isinstance(model, type) and issubclass(model, BaseModel):
            fields = {info.alias or name: info for name, info in model.model_fields.items()}
            annotation: Any = fields[part].annotation if part in fields else None
            arguments = [item for item in getattr(annotation, "__args__", ()) if isinstance(item, type)]
            model = arguments[0] if arguments else annotation
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        return []
    return [info.alias or name for name, info in model.model_fields.items()]
