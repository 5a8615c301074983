"""Campaign files: what is refused, with its reason code and place, and that all faults come at once."""

from __future__ import annotations

import copy
import gzip

import pytest
import yaml
from plans import REPOSITORY, SHAPES, campaign, make_plan, profile

from ep_campaign import routes
from ep_campaign.errors import CampaignError
from ep_campaign.expand import load_plan
from ep_campaign.kinds import load_any_plan
from ep_campaign.load import load_campaign

SHIPPED = sorted((REPOSITORY / "config" / "campaigns").glob("*.yaml"))
DIGEST = "@sha256:" + "a" * 64


def refused(tmp_path, value, text=None):
    """The refusal of a campaign dict (or of a file's raw text) by its loader and plan."""
    path = tmp_path / "tiny.yaml"
    path.write_bytes(text if text is not None else yaml.safe_dump(value).encode())
    with pytest.raises(CampaignError) as caught:
        load_plan(path, SHAPES)
    return caught.value


def arm(**fields):
    """An arm of the second backend."""
    return {"name": "b", "backend": "torch-agrs", **fields}


TWO = [{"name": "a", "backend": "torch-a2a"}]

BAD_FIELDS = {
    "unknown_key": ({"sede": 3}, "sede", "did you mean 'seed'"),
    "missing_key": ({"seed": ...}, "seed", "Field required"),
    "bad_value": ({"budget_hours": "3h"}, "budget_hours", "found '3h'"),
    "unknown_value": ({"device": "tpu"}, "device", "'cpu' or 'cuda'"),
    "empty_matrix": ({"arms": []}, "arms", "at least 1"),
    "name_mismatch": ({"name": "other"}, "name", "expected 'tiny'"),
    "duplicate_arm": (
        {"arms": [*TWO, {"name": "a", "backend": "torch-agrs"}], "reference": "a"},
        "arms",
        "a stands more",
    ),
    "duplicate_ep_size": ({"ep_sizes": [{"ranks": 2, "rounds": 1}] * 2}, "ep_sizes", "2 stands more"),
    "unknown_reference": ({"reference": "none"}, "reference", "'none' is no arm"),
    "unknown_backend": (
        {"arms": [*TWO, arm(backend="nvshmem")], "reference": "a"},
        "arms.1.backend",
        "known: deepep-v1",
    ),
    "unknown_api_mode": (
        {"arms": [*TWO, arm(api_modes={"decode": "normal"})], "reference": "a"},
        "arms.1.api_modes.decode",
        "torch-agrs has portable",
    ),
    "missing_api_mode": (
        {"arms": [*TWO, arm(backend="uccl")], "reference": "a"},
        "arms.1.api_modes",
        "normal, low_latency",
    ),
    "image_not_by_digest": (
        {"arms": [*TWO, arm(image="uccl:latest")], "reference": "a"},
        "arms.1.image",
        "a tag can move",
    ),
    "undeclared_difference": (
        {"arms": [*TWO, arm(environment={"FI_PROVIDER": "efa"})], "reference": "a"},
        "arms.1.environment_reasons",
        "FI_PROVIDER differs",
    ),
    "loud_environment": (
        {
            "arms": [*TWO, arm(environment={"NCCL_DEBUG": "INFO"}, environment_reasons={"NCCL_DEBUG": "x"})],
            "reference": "a",
        },
        "arms.1.environment",
        "sets NCCL_DEBUG=INFO",
    ),
    "reason_without_variable": (
        {"arms": [*TWO, arm(environment_reasons={"FI_PROVIDER": "why"})], "reference": "a"},
        "arms.1.environment_reasons",
        "which this arm does not set",
    ),
    "experts_not_divisible": (
        {"ep_sizes": [{"ranks": 3, "rounds": 1, "scored": False}]},
        "ep_sizes.0.ranks",
        "8 experts",
    ),
    "ep_size_not_divisible": (
        {"ep_sizes": [{"ranks": 4, "ranks_per_pod": 3, "rounds": 1, "scored": False}]},
        "ep_sizes.0.ranks_per_pod",
        "4 ranks in pods of 3",
    ),
    "shared_device_is_scored": (
        {"device": "cuda", "ep_sizes": [{"ranks": 2, "rounds": 7, "ranks_per_device": 2}]},
        "ep_sizes.0.ranks_per_device",
        "set scored: false",
    ),
    "no_device_to_share": (
        {"ep_sizes": [{"ranks": 2, "rounds": 1, "ranks_per_device": 2, "scored": False}]},
        "ep_sizes.0.ranks_per_device",
        "the device is cpu",
    ),
    "top_k_over_experts": ({"profiles": [profile("decode", top_k=9)]}, "profiles.0.top_k", "9 of 8 experts"),
    "hidden_not_divisible": (
        {"profiles": [profile("decode", hidden=100)]},
        "profiles.0.hidden",
        "100 is not a multiple",
    ),
    "capacity_too_small": ({"profiles": [profile("decode", max_tokens_per_rank=4)]}, "profiles.0.max_tokens", "below"),
    "missing_shape": ({"profiles": [{"name": "decode", "tokens_per_rank": 8}]}, "profiles.0", "needs `shape`"),
    "shape_twice": ({"profiles": [profile("decode", shape="deepseek-v3")]}, "profiles.0", "keep one"),
    "unknown_shape": (
        {"profiles": [{"name": "d", "tokens_per_rank": 8, "shape": "gpt-9"}]},
        "profiles.0.shape",
        "gpt-9",
    ),
    "bad_groups": (
        {"routes": [{"name": "g", "kind": "grouped", "groups": 3}]},
        "routes.0.groups",
        "8 experts in 3 groups",
    ),
    "no_tokens": (
        {"routes": [{"name": "r", "kind": "ragged", "empty_ranks": 2}]},
        "ep_sizes.0.ranks",
        "2 empty ranks of 2",
    ),
    "missing_trace": ({"routes": [{"name": "t", "kind": "trace"}]}, "routes.0.trace", "needs the path"),
    "no_such_trace": (
        {"routes": [{"name": "t", "kind": "trace", "trace": "none.csv"}]},
        "routes.0.trace",
        "is no file",
    ),
    "primary_not_measured": (
        {"measurement": {"modes": ["chained"], "iterations": 20}},
        "measurement.primary",
        "host_start is not among",
    ),
    "chain_not_divisor": ({"measurement": {"iterations": 15}}, "measurement.iterations", "chains of 10"),
    "unknown_family_member": ({"family": {"routes": ["zipf"]}}, "family.routes", "'zipf' is not declared"),
    "nothing_to_compare": ({"arms": TWO, "reference": "a"}, "arms", "at least two arms"),
    "undecidable_family": ({"ep_sizes": [{"ranks": 2, "rounds": 3}]}, "2 ranks", "use at least 7 rounds"),
    "published_order_needs_three_arms": (
        {"arms": [*TWO, arm()], "reference": "a", "order": "published"},
        "order",
        "this campaign has 2",
    ),
}


@pytest.mark.parametrize("code", BAD_FIELDS)
def test_a_bad_field_is_refused_with_its_place(tmp_path, code):
    """The refusal has the code, names the field, and says what was found or what to do."""
    fields, place, message = BAD_FIELDS[code]
    value = {key: item for key, item in campaign(**fields).items() if item is not ...}

    error = refused(tmp_path, value)

    refusal = next(item for item in error.refusals if item.code == code)
    assert place in refusal.where
    assert message in refusal.message


def test_all_faults_come_at_once(tmp_path):
    """Four faults of fields that only make sense together are four refusals."""
    value = campaign(
        reference="none",
        profiles=[profile("decode", top_k=9, hidden=100)],
        family={"routes": ["zipf"]},
    )

    codes = {"unknown_reference", "top_k_over_experts", "hidden_not_divisible", "unknown_family_member"}
    assert codes == set(refused(tmp_path, value).codes)


def test_unknown_keys_of_any_depth_are_refused_with_the_nearest(tmp_path):
    """A misspelt key in a list entry and in a nested section are both found, each with a suggestion."""
    value = campaign(arms=[{"name": "a", "backend": "torch-a2a", "envronment": {}}], measurement={"primry": {}})

    found = {item.where.split(": ")[-1]: item.message for item in refused(tmp_path, value).refusals}
    assert "did you mean 'environment'" in found["arms.0.envronment"]
    assert "did you mean 'primary'" in found["measurement.primry"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"\xff\xfe\x00binary", "unreadable_file"),
        (b"a: [1", "not_yaml"),
        (b"- 1\n- 2\n", "not_a_mapping"),
        (b"", "not_a_mapping"),
        (b"seed: 1\nseed: 2\n", "not_yaml"),
        (b"!!python/object/apply:os.system ['true']", "not_yaml"),
    ],
)
def test_a_file_that_is_no_mapping_is_refused(tmp_path, text, code):
    """Bytes, broken YAML, lists, nothing, a key that stands twice, and YAML that would run code."""
    assert (code,) == refused(tmp_path, None, text).codes


def test_a_missing_file_is_refused_with_its_neighbours(tmp_path):
    """The refusal lists the campaigns that are there."""
    (tmp_path / "other.yaml").write_text("{}")
    with pytest.raises(CampaignError) as caught:
        load_campaign(tmp_path / "none.yaml", SHAPES)

    assert ("no_such_file",) == caught.value.codes
    assert "its folder holds: other" in str(caught.value)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_campaigns_plan(path):
    """Every campaign that ships has a plan with starts."""
    assert load_any_plan(path, SHAPES).starts


def test_shapes_have_sources_and_sizes():
    """Every shipped shape names its source and holds top-k of its experts."""
    for name, shape in yaml.safe_load(SHAPES.read_text()).items():
        assert {"hidden", "experts", "top_k", "source"} == set(shape), name
        assert 0 < shape["top_k"] <= shape["experts"], name
        assert shape["source"], name


@pytest.mark.parametrize(
    ("rows", "code", "where"),
    [
        (["0,1"] * 15, "trace_too_short", "trace.csv"),
        (["0,8", *["0,1"] * 15], "trace_out_of_range", "line 1"),
        (["0,1", "0,-2", *["0,1"] * 14], "trace_out_of_range", "line 2"),
        (["0,1,2", *["0,1"] * 15], "trace_wrong_width", "line 1"),
        (["0,x", *["0,1"] * 15], "trace_not_integers", "line 1"),
        (["3,3", *["0,1"] * 15], "trace_repeats_expert", "line 1"),
    ],
)
def test_bad_traces_are_refused(tmp_path, rows, code, where):
    """Short, out of range, wrong width, not numbers, an expert twice: each with its line."""
    (tmp_path / "trace.csv").write_text("# comment\n" + "\n".join(rows) + "\n")

    error = refused(tmp_path, campaign(routes=[{"name": "t", "kind": "trace", "trace": "trace.csv"}]))

    assert [code] == [item.code for item in error.refusals if where in item.where]


@pytest.mark.parametrize(("name", "data"), [("t.csv", b"\x80\x81"), ("t.csv.gz", b"not gzip")])
def test_a_binary_trace_is_refused(tmp_path, name, data):
    """Bytes that are no ASCII, and a name that promises gzip, are `trace_not_text`."""
    (tmp_path / name).write_bytes(data)

    value = campaign(routes=[{"name": "t", "kind": "trace", "trace": name}])
    assert ("trace_not_text",) == refused(tmp_path, value).codes


def test_a_good_trace_is_in_the_plan_by_its_digest(tmp_path):
    """A trace with masked slots plans; its route names the file by its SHA-256."""
    (tmp_path / "trace.csv").write_text("\n".join(["0,1", "-1,-1", "7,-1"] * 6) + "\n")

    plan = make_plan(tmp_path, routes=[{"name": "t", "kind": "trace", "trace": "trace.csv"}])
    route = plan.spec(plan.starts[0]).routes[0]
    assert f"traces/{route.trace_sha256}.csv" == route.trace


def test_images_by_digest_are_taken(tmp_path):
    """A pinned image passes into the plan."""
    value = copy.deepcopy(campaign())
    value["arms"][0]["image"] = "registry.example/ep" + DIGEST

    plan = make_plan(tmp_path, arms=value["arms"])
    assert "registry.example/ep" + DIGEST == plan.document["arms"]["torch-a2a"]["image"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"? [a, b]\n: c\n", "a key is a word"),
        (b"? {a: 1}\n: c\n", "a key is a word"),
        (b"{a: " * 3000, "nested too deeply"),
        (b"seed: " + b"9" * 5000, "5000 characters"),
        (b"seed: 1:30:00\n", "base 60"),
        (b"price: 1:30.5\n", "base 60"),
        (b"a: &x {b: 1}\nc:\n  <<: *x\n", "write the keys out"),
        (b"d: 2026-99-99\n", "month"),
    ],
)
def test_odd_yaml_is_refused_in_words(tmp_path, text, says):
    """What YAML's loader takes for something else, or falls over, is a refusal and never a traceback."""
    error = refused(tmp_path, None, text)
    assert error.codes == ("not_yaml",)
    assert says in str(error)


@pytest.mark.parametrize("number", [float("inf"), float("nan"), True])
@pytest.mark.parametrize(
    ("place", "fields"),
    [
        ("budget_hours", lambda number: {"budget_hours": number}),
        ("price_per_node_hour", lambda number: {"price_per_node_hour": number}),
        (
            "limits.link_peak_gigabytes_per_second",
            lambda number: {"limits": {"link_peak_gigabytes_per_second": number}},
        ),
        ("ep_sizes.0.rounds", lambda number: {"ep_sizes": [{"ranks": 2, "rounds": number}]}),
        ("seed", lambda number: {"seed": number}),
    ],
)
def test_what_is_no_number_is_refused(tmp_path, place, fields, number):
    """Infinities, NaN, and a truth value where a number stands."""
    error = refused(tmp_path, campaign(**fields(number)))
    assert [(item.code, item.where.rpartition(": ")[2]) for item in error.refusals] == [("bad_value", place)]


@pytest.mark.parametrize("number", [float("inf"), float("nan")])
def test_a_knob_is_finite(tmp_path, number):
    """A knob may be true or false, and no infinity."""
    error = refused(tmp_path, campaign(arms=[*TWO, arm(knobs={"num_sms": number})], reference="a"))
    assert {item.code for item in error.refusals} == {"bad_value"}


@pytest.mark.parametrize("name", ["", "X=Y", "X\0", "X Y", "1X"])
def test_a_variable_has_a_name(tmp_path, name):
    """What no process can be given as a variable is refused before anything runs."""
    error = refused(
        tmp_path,
        campaign(arms=[*TWO, arm(environment={name: "1"}, environment_reasons={name: "why"})], reference="a"),
    )
    assert "bad_value" in error.codes


def test_a_variable_holds_no_nul(tmp_path):
    """Nor can its value end early."""
    arms = [*TWO, arm(environment={"X": "a\0b"}, environment_reasons={"X": "why"})]
    assert refused(tmp_path, campaign(arms=arms, reference="a")).codes == ("bad_value",)


def test_an_image_ends_with_its_digest(tmp_path):
    """A line end after it is not part of it."""
    error = refused(tmp_path, campaign(arms=[*TWO, arm(image=f"uccl{DIGEST}\n")], reference="a"))
    assert error.codes == ("image_not_by_digest",)


def test_a_far_key_is_not_suggested(tmp_path):
    """Better no suggestion than a misleading one."""
    assert "did you mean" not in str(refused(tmp_path, campaign(itterations=3)))


def test_a_long_trace_path_is_refused(tmp_path):
    """Longer than any file system takes."""
    error = refused(tmp_path, campaign(routes=[{"name": "t", "kind": "trace", "trace": "x" * 5000}]))
    assert error.refusals[0].where.endswith("routes.0.trace")
    error = refused(tmp_path, campaign(routes=[{"name": "t", "kind": "trace", "trace": "x" * 1000}]))
    assert error.codes == ("no_such_trace",)


def test_a_damaged_or_bottomless_trace_is_refused(tmp_path, monkeypatch):
    """A gzip body that was altered, and a small file that unpacks to more than a trace may hold."""
    path = tmp_path / "t.csv.gz"
    packed = bytearray(gzip.compress(b"0,1\n" * 5000))
    packed[20] ^= 0xFF
    path.write_bytes(bytes(packed))
    with pytest.raises(CampaignError) as caught:
        routes.read_trace(path)
    assert caught.value.codes == ("trace_not_text",)

    monkeypatch.setattr(routes, "MAX_TRACE_BYTES", 1000)
    path.write_bytes(gzip.compress(b"0" * 1001))
    with pytest.raises(CampaignError) as caught:
        routes.read_trace(path)
    assert caught.value.codes == ("trace_too_large",)
    path.write_bytes(gzip.compress(b"0" * 1000))
    assert len(routes.read_trace(path)) == 1000
