"""Messages survive a container's log, or their loss is stated; nothing that is not exactly what was written comes out."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
import tracemalloc
import zlib
from itertools import chain, zip_longest

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ep_worker.contract import framing
from ep_worker.contract.frame import BEGIN, END, MAX_FRAME_CHARS, Content, Frame, Header, payload_room, render, scan
from ep_worker.contract.framing import CLOSING_NAME, DamageKind, Decoded, LossReason, Lost, decode, encode

SPLICE = "Elastic buffer uses 3 channels per SM"  # printed by a native library, found appended to a record
STREAM = "r03-decode-uccl/attempt-1/pod-0"
SMALL = {"start.json": b'{"status": "ok"}', "empty": b""}


def noise(num_bytes: int, seed: int = 1) -> bytes:
    """Bytes that do not compress, as the samples of a start do not."""
    return random.Random(seed).randbytes(num_bytes)


def named(messages: dict[str, bytes], stream: str = STREAM) -> dict[tuple[str, str], bytes]:
    return {(stream, name): message for name, message in messages.items()}


def whole(decoded: Decoded, messages: dict[str, bytes], stream: str = STREAM) -> bool:
    return decoded.messages == named(messages, stream) and decoded.lost == ()


def corrupt(line: str) -> str:
    """The line of a frame with one letter in the middle of its text changed."""
    at = len(line) - (len(line) - line.rindex(";")) // 2
    return line[:at] + ("A" if line[at] != "A" else "B") + line[at + 1 :]


class TestEncode:
    """The lines that are written."""

    def test_every_line_is_ascii_and_within_its_bound(self) -> None:
        """A message larger than a frame is cut into frames of at most 12 KiB, none with a line end or a space."""
        lines = list(encode({"samples.bin.gz": noise(100_000)}, STREAM))
        # 12288 chars less the 279 of marks, separators, digests and the widest numbers leave 9006 bytes a frame:
        # 100000 + 41 of zlib make 12 frames; 1 closing list.
        assert len(lines) == 12 + 1
        assert max(map(len, lines)) <= 12 * 1024
        assert all(line.isascii() and line.isprintable() and " " not in line for line in lines)

    def test_a_frame_is_filled_to_its_bound(self) -> None:
        """The widest numbers leave room for as much base64 as fits, and no group of four more."""
        room = payload_room(STREAM, "a", 64 * 2**20, 1_000)
        head = Header(STREAM, "a", 9_999_999, Content("0" * 64, 64 * 2**20, 9_999_999))
        assert len(render(Frame(head, bytes(room)))) <= 1_000 < len(render(Frame(head, bytes(room + 3))))

    def test_no_messages_are_a_closing_list(self) -> None:
        """A stream with nothing to say is complete, not absent."""
        (line,) = encode({}, STREAM)
        assert decode([line], expected_streams=[STREAM]) == Decoded({}, (), {})

    def test_the_lines_are_deterministic(self) -> None:
        """Neither the order of the mapping nor the run changes a line."""
        assert list(encode({"a": b"1", "b": b"2"}, STREAM)) == list(encode({"b": b"2", "a": b"1"}, STREAM))

    def test_two_copies_are_the_lines_twice(self) -> None:
        """The second copy begins after the first has ended, closing list included."""
        once = list(encode(SMALL, STREAM))
        assert list(encode(SMALL, STREAM, copies=2)) == once + once

    @pytest.mark.parametrize(
        ("messages", "stream", "options", "expected"),
        [
            ({"a": b""}, STREAM, {"copies": 0}, "copies is 0"),
            ({"a": b""}, STREAM, {"max_frame_chars": MAX_FRAME_CHARS + 1}, "max_frame_chars is 16385"),
            ({"a": b""}, STREAM, {"max_frame_chars": 400}, "too few for stream"),
            ({}, STREAM, {"max_frame_chars": 400}, "too few for stream"),
            ({"": b""}, STREAM, {}, "message name ''"),
            ({"a": b""}, "", {}, "stream ''"),
            ({"n" * 256: b""}, STREAM, {}, "must have 1 to 255"),
            ({"\u00e9" * 43: b""}, STREAM, {}, "must have 1 to 255"),  # 43 letters of two bytes: 258 characters
            ({str(i): b"" for i in range(framing.MAX_MESSAGES)}, STREAM, {}, "fewer than 4096"),
            ({"a": bytes(64 * 2**20 + 1)}, STREAM, {}, "67108865 bytes"),
        ],
    )
    def test_arguments_out_of_bounds_are_refused_at_once(self, messages, stream, options, expected) -> None:
        """`encode` raises before its first line, and names the argument."""
        with pytest.raises(ValueError, match=expected):
            encode(messages, stream, **options)

    def test_all_problems_are_named_together(self) -> None:
        """One call shows every argument to mend."""
        with pytest.raises(ValueError, match=r"copies is 0.*; stream ''.*; message name ''"):
            encode({"": b""}, "", copies=0)

    def test_names_of_any_characters_travel(self) -> None:
        """Names with separators, marks, line ends, other scripts and undecodable bytes come back as they were."""
        messages = {"a;b c\n": b"1", BEGIN + END: b"2", "\u6e2c\u5b9a": b"3", "bad\udcff": b"4", "..": b"5"}
        assert whole(decode(encode(messages, "s;\n")), messages, "s;\n")


class TestWholeLines:
    """What moves or joins whole frames costs nothing."""

    @pytest.fixture
    def messages(self) -> dict[str, bytes]:
        return {**SMALL, "samples.bin.gz": noise(40_000)}

    @pytest.fixture
    def lines(self, messages) -> list[str]:
        return list(encode(messages, STREAM))

    def test_an_untouched_log(self, messages, lines) -> None:
        """Lines without ends, lines with ends and one text read the same."""
        assert whole(decode(lines), messages)
        assert whole(decode(line + "\r\n" for line in lines), messages)
        assert whole(decode("\n".join(lines)), messages)

    def test_the_real_splice_appended_to_a_record(self, messages, lines) -> None:
        """What ended the first published campaign costs nothing here."""
        assert whole(decode(line + SPLICE for line in lines), messages)

    @pytest.mark.parametrize("text", [SPLICE, "\x00\ufffd\udcff", "]EPF@EPF", ";;;;", "@", "=" * 20_000], ids=repr)
    def test_splices_before_and_after_every_frame(self, text, messages, lines) -> None:
        """Text on the same line, on either side, is not part of a frame; nor is text that looks like half a mark."""
        assert whole(decode(text + line + text for line in lines), messages)

    def test_several_frames_a_line(self, messages, lines) -> None:
        """All frames may stand in one line, with or without text between them."""
        assert whole(decode(["".join(lines)]), messages)
        assert whole(decode([SPLICE.join(lines)]), messages)

    def test_duplicated_and_reordered_frames(self, messages, lines) -> None:
        """Order and repetition carry no meaning."""
        shuffled = lines * 3
        random.Random(7).shuffle(shuffled)
        assert whole(decode(shuffled), messages)

    def test_lines_split_at_16_kib(self, messages, lines) -> None:
        """A frame that text pushed across the runtime's 16 KiB limit arrives in two lines, and is recovered."""
        text = SPLICE.join(lines)
        pieces = [text[at : at + 16 * 1024] for at in range(0, len(text), 16 * 1024)]
        assert len(pieces) > 3
        assert whole(decode(pieces), messages)

    def test_the_runtimes_own_file_and_timestamps(self, messages, lines) -> None:
        """The prefix of each partial line (`P`) of a container runtime's file, or of each line, is not text."""
        text = SPLICE.join(lines)
        pieces = [text[at : at + 16 * 1024] for at in range(0, len(text), 16 * 1024)]
        stamp = "2026-03-01T10:20:30.123456789Z"
        assert whole(decode("\n".join(f"{stamp} stdout P {piece}" for piece in pieces)), messages)
        assert whole(decode(f"{stamp} stderr F {line}\n" for line in lines), messages)
        assert whole(decode(f"2026-03-01T10:20:30+01:00 {piece}" for piece in pieces), messages)

    def test_a_line_end_after_every_character(self) -> None:
        """Marks and heads may be split as well as the text."""
        assert whole(decode(chain.from_iterable(encode(SMALL, STREAM))), SMALL)
        assert whole(decode("\r\n".join("".join(encode(SMALL, STREAM)))), SMALL)

    def test_interleaved_ranks(self) -> None:
        """Frames of eight ranks that alternate line by line are eight streams."""
        ranks = {f"attempt-1/rank-{rank}": {"samples": noise(20_000, rank)} for rank in range(8)}
        columns = [list(encode(messages, stream)) for stream, messages in ranks.items()]
        decoded = decode(chain.from_iterable(zip(*columns, strict=True)), expected_streams=ranks)
        assert decoded.lost == ()
        assert decoded.messages == {(stream, "samples"): ranks[stream]["samples"] for stream in ranks}

    def test_a_whole_frame_of_another_rank_inside_a_frame(self) -> None:
        """A frame written in the middle of another one is cut out; both are recovered."""
        outer, closing = encode({"a": noise(3_000)}, "rank-0")
        inner = list(encode({"a": noise(500, 2)}, "rank-1"))
        decoded = decode([outer[:1_000] + "".join(inner) + outer[1_000:], closing])
        assert decoded.lost == ()
        assert decoded.messages == {("rank-0", "a"): noise(3_000), ("rank-1", "a"): noise(500, 2)}

    def test_begin_marks_that_nothing_follows(self, messages, lines) -> None:
        """More of them than frames are kept open cost no frame, only counted damage."""
        decoded = decode((BEGIN + "1;") * 6 + line for line in lines)
        assert whole(decoded, messages)
        assert decoded.damage == {DamageKind.HEAD: 6 * len(lines)}


class TestDamage:
    """What hits a frame is found, and said exactly."""

    @pytest.fixture
    def messages(self) -> dict[str, bytes]:
        return {"samples": noise(40_000), "start.json": b"{}"}  # 5 frames of at most 9006 bytes, and 1

    @pytest.fixture
    def lines(self, messages) -> list[str]:
        lines = list(encode(messages, STREAM))
        assert len(lines) == 5 + 1 + 1
        return lines

    def test_a_splice_inside_a_frame(self, messages, lines) -> None:
        """The loss names the frame; the other message is whole."""
        lines[2] = lines[2][:5_000] + SPLICE + "\n" + lines[2][5_000:]
        decoded = decode(lines)
        assert decoded.messages == named({"start.json": b"{}"})
        assert decoded.lost == (Lost(STREAM, "samples", LossReason.MISSING_FRAMES, (range(3, 4),), (3,)),)
        assert decoded.damage == {DamageKind.TEXT: 1}
        assert str(decoded.lost[0]) == (
            f"stream '{STREAM}': message 'samples' is lost; frames not found intact: 3; found damaged: 3 [missing_frames]"
        )

    def test_a_splice_inside_a_frame_that_was_written_twice(self, messages, lines) -> None:
        """With `copies=2` the other copy is taken, whichever was hit."""
        twice = list(encode(messages, STREAM, copies=2))
        twice[2] = twice[2][:5_000] + SPLICE + twice[2][5_000:]
        twice[7 + 3] = twice[7 + 3][:5_000] + SPLICE + twice[7 + 3][5_000:]
        decoded = decode(twice)
        assert whole(decoded, messages)
        assert decoded.damage == {DamageKind.TEXT: 2}

    def test_a_splice_inside_a_head(self, messages, lines) -> None:
        """Whose frame it was cannot be said then, but which frame is missing can."""
        lines[4] = lines[4][:60] + SPLICE + lines[4][60:]
        decoded = decode(lines)
        assert decoded.lost == (Lost(STREAM, "samples", LossReason.MISSING_FRAMES, (range(5, 6),)),)
        assert decoded.damage == {DamageKind.HEAD: 1}

    def test_an_altered_name(self) -> None:
        """A head with one letter changed names no other message, also without a closing list to contradict it."""
        line = next(encode({"rank-1": b"1"}, STREAM))
        decoded = decode([line.replace(";rank-1;", ";rank-7;")])
        assert decoded == Decoded({}, (), {DamageKind.HEAD: 1})

    def test_damage_that_a_copy_mended_is_not_listed(self, messages, lines) -> None:
        """Frame 2 was hit once and found intact once; frame 4 is missing."""
        decoded = decode([corrupt(lines[1]), *lines[:3], *lines[4:]])
        assert decoded.lost == (Lost(STREAM, "samples", LossReason.MISSING_FRAMES, (range(4, 5),)),)
        assert decoded.damage == {DamageKind.TEXT: 1}

    def test_missing_frames_are_given_as_ranges(self, messages, lines) -> None:
        """Frames 1, 3 and 4 of 5 removed are two ranges."""
        decoded = decode([lines[1], lines[4], *lines[5:]])
        assert decoded.lost == (Lost(STREAM, "samples", LossReason.MISSING_FRAMES, (range(1, 2), range(3, 5))),)
        assert "frames not found intact: 1, 3-4 [" in str(decoded.lost[0])

    def test_two_ranks_cut_one_another(self) -> None:
        """Halves of two frames that alternate inside a line make neither: both are reported."""
        (a, a_end), (b, b_end) = encode({"m": noise(3_000)}, "rank-0"), encode({"m": noise(3_000, 2)}, "rank-1")
        decoded = decode([a[:2_000] + b[:2_000] + a[2_000:] + b[2_000:], a_end, b_end])
        assert decoded.messages == {}
        assert [(one.stream, one.reason, one.damaged_frames) for one in decoded.lost] == [
            ("rank-0", LossReason.MISSING_FRAMES, (1,)),
            ("rank-1", LossReason.MISSING_FRAMES, (1,)),
        ]

    def test_a_message_of_which_nothing_arrived(self, messages, lines) -> None:
        """The closing list names it, with the frames it had."""
        assert decode(lines[5:]).lost == (Lost(STREAM, "samples", LossReason.ABSENT, (range(1, 6),)),)

    def test_a_log_that_ends_early(self, messages, lines) -> None:
        """Without the closing list the log is truncated, also where each message that it shows is whole."""
        decoded = decode(lines[:-1])
        assert decoded.messages == named(messages)
        assert decoded.lost == (Lost(STREAM, CLOSING_NAME, LossReason.TRUNCATED),)
        assert str(decoded.lost[0]) == f"stream '{STREAM}': the closing list is lost [truncated]"

    def test_a_log_that_ends_inside_the_closing_list(self, messages, lines) -> None:
        """A begun closing list says which frame of it was hit."""
        assert decode([*lines[:-1], lines[-1][:-10]]).lost == (
            Lost(STREAM, CLOSING_NAME, LossReason.TRUNCATED, (range(1, 2),), (1,)),
        )

    def test_a_log_that_begins_late(self, messages, lines) -> None:
        """A rotated log lost its first frames, not its end."""
        text = "\n".join(lines)[20_000:]  # into the second frame
        assert decode(text).lost == (Lost(STREAM, "samples", LossReason.MISSING_FRAMES, (range(1, 3),)),)
        assert decode(text).damage == {DamageKind.STRAY_END: 1}

    def test_a_stream_of_which_nothing_arrived(self) -> None:
        """An empty log lost every stream that was expected of it."""
        lost = tuple(Lost(stream, CLOSING_NAME, LossReason.TRUNCATED) for stream in "abcdefgh")
        assert decode([], expected_streams="hgfedcba") == Decoded({}, lost, {})
        assert decode("no frame here") == Decoded({}, (), {})

    def test_a_frame_without_its_end(self, messages, lines) -> None:
        """A frame cut short takes no later frame with it."""
        lines[1] = lines[1][:3_000]
        decoded = decode(lines + [SPLICE] * 500)  # 18500 characters: past the longest frame
        assert decoded.lost == (Lost(STREAM, "samples", LossReason.MISSING_FRAMES, (range(2, 3),), (2,)),)


class TestAttempts:
    """What two attempts left in one log is never mixed."""

    def test_two_attempts_under_their_own_tokens(self) -> None:
        """Each has its own bytes, and the one that broke off its own loss."""
        first = list(encode({"samples": noise(30_000, 1)}, "start/attempt-1"))
        second = list(encode({"samples": noise(30_000, 2)}, "start/attempt-2"))
        decoded = decode([*first[:2], *second, *first[:1]])
        assert decoded.messages == {("start/attempt-2", "samples"): noise(30_000, 2)}
        assert decoded.lost == (
            Lost("start/attempt-1", CLOSING_NAME, LossReason.TRUNCATED),
            Lost("start/attempt-1", "samples", LossReason.MISSING_FRAMES, (range(3, 5),)),  # 2 of 4 frames
        )

    @pytest.mark.parametrize("num_first", [1, 4, 5], ids=["frame", "message", "all"])
    def test_two_contents_under_one_token_are_both_lost(self, num_first: int) -> None:
        """A writer that reused a token is found, and no content is preferred."""
        first = list(encode({"samples": noise(30_000, 1)}, STREAM))
        second = list(encode({"samples": noise(30_000, 2)}, STREAM))
        decoded = decode(first[:num_first] + second)
        assert decoded.messages == {}
        assert Lost(STREAM, "samples", LossReason.CONFLICT) in decoded.lost

    def test_a_message_that_the_closing_list_does_not_name(self) -> None:
        """A message and a closing list of two writers do not confirm one another."""
        stray = next(encode({"b": b"2"}, STREAM))
        decoded = decode([*encode({"a": b"1"}, STREAM), stray])
        assert decoded.messages == named({"a": b"1"})
        assert decoded.lost == (Lost(STREAM, "b", LossReason.CONFLICT),)


def forged(payload: bytes, name: str = "m", seq: int = 1, num_frames: int = 1, num_bytes: int = 1) -> str:
    """A frame with valid digests of its own that promises the message `x`, truly or not."""
    content = Content(hashlib.sha256(b"x").hexdigest(), num_bytes, num_frames)
    return render(Frame(Header(STREAM, name, seq, content), payload))


def resealed(line: str, **changes: str) -> str:
    """The line of a frame with some fields replaced and its digests made valid again."""
    names = (
        "version",
        "stream",
        "name",
        "seq",
        "num_frames",
        "num_bytes",
        "sha256",
        "text_digest",
        "head_digest",
        "text",
    )
    fields = dict(zip(names, line.removeprefix(BEGIN).removesuffix(END).split(";"), strict=True)) | changes
    fields["text_digest"] = hashlib.sha256(fields["text"].encode()).hexdigest()[:32]
    head = ";".join(list(fields.values())[:8])
    fields["head_digest"] = hashlib.sha256(head.encode()).hexdigest()[:32]
    return BEGIN + ";".join(fields.values()) + END


class TestHostile:
    """No text raises, costs memory without bound, or brings out a message nobody wrote."""

    @pytest.mark.parametrize(("num_bytes", "limit_mib"), [(0, 1), (1_000, 1), (2**20, 4)])
    def test_a_decompression_bomb(self, num_bytes: int, limit_mib: int) -> None:
        """A frame that unpacks to far more than its promise stops at the promise."""
        bomb = zlib.compress(bytes(8 * 2**20), 9)  # about 8 KB, one frame
        line = forged(bomb, num_bytes=num_bytes)
        assert len(line) < MAX_FRAME_CHARS
        tracemalloc.start()
        decoded = decode([line])
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert Lost(STREAM, "m", LossReason.CORRUPT) in decoded.lost
        assert peak_bytes < limit_mib * 2**20

    @pytest.mark.parametrize(
        ("payload", "num_bytes"),
        [(b"", 1), (b"not zlib", 1), (zlib.compress(b"x"), 2), (zlib.compress(b"x"), 0), (zlib.compress(b"y"), 1)],
        ids=["nothing", "not zlib", "short", "long", "other bytes"],
    )
    def test_intact_frames_that_do_not_make_their_message(self, payload: bytes, num_bytes: int) -> None:
        """A message is what its length and digest say, or corrupt."""
        assert decode([forged(zlib.compress(b"x"))]).messages == named({"m": b"x"})
        decoded = decode([forged(payload, num_bytes=num_bytes)])
        assert decoded.messages == {}
        assert Lost(STREAM, "m", LossReason.CORRUPT) in decoded.lost

    def test_a_message_that_says_it_is_too_large(self) -> None:
        """The bound of the caller holds before anything is kept."""
        lines = list(encode({"m": bytes(1_001)}, STREAM))
        assert whole(decode(lines, max_message_bytes=1_001), {"m": bytes(1_001)})
        assert decode(lines, max_message_bytes=1_000).lost == (Lost(STREAM, "m", LossReason.TOO_LARGE),)

    def test_the_first_reason_stands(self) -> None:
        """A message that was too large stays so, also where the closing list does not know it."""
        decoded = decode([forged(b"", num_bytes=10**9), *encode({"a": b""}, STREAM)])
        assert decoded.lost == (Lost(STREAM, "m", LossReason.TOO_LARGE),)

    def test_messages_that_are_too_large_together(self) -> None:
        """Once the total is spent, further messages are lost and said to be."""
        messages = {name: bytes(10_000) for name in "abc"}
        decoded = decode(encode(messages, STREAM), max_total_bytes=21_000)
        assert decoded.messages == named({"a": bytes(10_000), "b": bytes(10_000)})
        assert decoded.lost == (Lost(STREAM, "c", LossReason.TOO_LARGE),)

    def test_repetition_takes_nothing_from_the_total(self) -> None:
        """A frame is held once: 20011 packed bytes and 3 frames' cost of 256 fit 22000 however often they come."""
        lines = list(encode({"m": noise(20_000)}, STREAM))
        repeated = [line for line in lines for _ in range(50)]
        assert whole(decode(repeated + repeated, max_total_bytes=22_000), {"m": noise(20_000)})

    def test_frames_of_messages_that_never_end(self) -> None:
        """Payloads, damage and huge counts held for incomplete messages are within the total too."""
        frames = [forged(noise(6_000, seq), seq=seq, num_frames=9_999_999) for seq in range(1, 21)]
        small = [corrupt(forged(b"1234", "n", seq=seq, num_frames=9_999_999)) for seq in range(1, 60)]
        decoded = decode([*frames, *small], max_total_bytes=10_000)
        reasons = {one.name: one.reason for one in decoded.lost}
        assert reasons == {"": LossReason.TRUNCATED, "m": LossReason.TOO_LARGE, "n": LossReason.TOO_LARGE}

    def test_a_huge_count_is_one_range(self) -> None:
        """A frame that says it is one of ten million costs one range, not ten million numbers."""
        decoded = decode([forged(b"x", seq=5, num_frames=9_999_999)])
        expected = Lost(STREAM, "m", LossReason.MISSING_FRAMES, (range(1, 5), range(6, 10_000_000)))
        assert expected in decoded.lost

    def test_more_messages_than_a_log_may_hold(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The first one too many is reported, the rest only not kept, and the whole is not complete."""
        lines = [line for index in range(5) for line in encode({"m": b""}, f"s{index}")]
        monkeypatch.setattr(framing, "MAX_MESSAGES", 4)  # two streams of a message and a closing list
        decoded = decode(lines)
        assert decoded.messages == {("s0", "m"): b"", ("s1", "m"): b""}
        assert decoded.lost == (Lost("s2", "m", LossReason.TOO_MANY),)

    @pytest.mark.parametrize(
        "changes",
        [
            {"seq": "0"},
            {"seq": "2"},
            {"num_frames": "9" * 8},
            {"num_frames": "9" * 5_000},
            {"num_bytes": "9" * 16},
            {"num_bytes": "-1"},
            {"seq": "\u0661"},
            {"name": "%FF"},
            {"name": "n" * 256},
            {"name": "a b"},
            {"stream": ""},
            {"sha256": "0" * 63},
        ],
        ids=str,
    )
    def test_heads_that_no_writer_makes(self, changes: dict[str, str]) -> None:
        """Numbers and names outside the format are not read, whatever their digest."""
        line = forged(b"x")
        assert resealed(line) == line
        assert decode([resealed(line, **changes)]) == Decoded({}, (), {DamageKind.HEAD: 1})

    def test_another_version(self) -> None:
        """A version that is not known is not read."""
        lines = [line.replace(f"{BEGIN}1;", f"{BEGIN}2;") for line in encode(SMALL, STREAM)]
        decoded = decode(lines, expected_streams=[STREAM])
        assert decoded.damage == {DamageKind.VERSION: 3}
        assert decoded.lost == (Lost(STREAM, CLOSING_NAME, LossReason.TRUNCATED),)

    @pytest.mark.parametrize("text", ["A", "QQ=", "QQ==QQ==", "Q Q=", "\u00e9\u00e9\u00e9\u00e9"])
    def test_text_that_is_no_base64_under_a_valid_digest(self, text: str) -> None:
        """The digest of a text does not make it base64."""
        assert decode([resealed(forged(b"abc"), text=text)]).damage == {DamageKind.TEXT: 1}

    @pytest.mark.parametrize(
        "closing",
        [
            b"[" * 100_000,
            b"\xff",
            f"{'0' * 64} 1 1 %FF".encode(),
            f"{'0' * 64} 1 1 a\n{'0' * 64} 1 1 a".encode(),
            "\n".join(f"{'0' * 64} 1 1 {index}" for index in range(4_097)).encode(),
        ],
        ids=["nested", "binary", "name", "twice", "too many"],
    )
    def test_a_closing_list_that_is_none(self, closing: bytes) -> None:
        """Proved bytes that are no closing list prove no stream."""
        content = Content(hashlib.sha256(closing).hexdigest(), len(closing), 1)
        line = render(Frame(Header(STREAM, CLOSING_NAME, 1, content), zlib.compress(closing)))
        assert decode([line]).lost == (Lost(STREAM, CLOSING_NAME, LossReason.CORRUPT),)

    def test_text_without_end_is_not_kept(self) -> None:
        """Reading 20 MB of begun frames, or of plain text after a begun frame, holds a few frames of it."""
        begun = (BEGIN + "1;" + "x" * 1_000) * 16
        for blocks, num_expected in [([begun] * 1_250, 20_000), ([BEGIN, *["y" * 10_000] * 2_000], 1)]:
            tracemalloc.start()
            num_found = sum(1 for _ in scan(blocks))
            peak_bytes = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert num_found == num_expected
            assert peak_bytes < 2**20

    def test_a_frame_beyond_the_longest(self) -> None:
        """A frame longer than a reader keeps is damage, also where it is whole."""
        longest = forged(noise(12_000))
        assert [type(one) for one in scan([longest])] == [Frame]
        assert len(longest) < MAX_FRAME_CHARS < len(forged(noise(12_200)))
        assert decode([forged(noise(12_200))]).damage == {DamageKind.TEXT: 1, DamageKind.STRAY_END: 1}


# Texts that a log may hold: marks and halves of them, line ends, runtime prefixes, what native libraries print.
HARMLESS = st.lists(
    st.sampled_from(
        [SPLICE, "\n", "\r", "@EPF", "]EPF", "@", "[", "!", "1;", ";", "=", "AAAA", "\udcff", "\u2028", " "]
    ),
    max_size=4,
).map("".join)
FOREIGN = st.one_of(HARMLESS, st.sampled_from([BEGIN, END, BEGIN + "1;s;", BEGIN + "2;", END + BEGIN]))
MESSAGES = st.dictionaries(
    st.text(st.sampled_from("ab/.;\u00e9\n"), min_size=1, max_size=4),
    st.one_of(st.binary(max_size=60), st.integers(0, 2_500).map(noise)),
    max_size=3,
)
CHARS = 700  # frames of about 300 payload bytes: a message of 2500 bytes has about nine


def streams_of(data: st.DataObject, copies: int) -> tuple[dict[tuple[str, str], bytes], list[list[str]]]:
    """One to three streams: everything written, and the lines of each."""
    written, columns = {}, []
    for index in range(data.draw(st.integers(1, 3), label="streams")):
        messages = data.draw(MESSAGES, label="messages")
        written |= named(messages, f"s/{index}")
        columns.append(list(encode(messages, f"s/{index}", copies=copies, max_frame_chars=CHARS)))
    return written, columns


def pieces_of(data: st.DataObject, text: str) -> list[str]:
    """The text in blocks of one size: a log may be read by lines, blocks or characters."""
    size = data.draw(st.sampled_from([len(text) + 1, 5_000, 997, 3]), label="block")
    return [text[at : at + size] for at in range(0, len(text), size)]


class TestProperties:
    """For any messages and any disturbance: exact, or reported."""

    @settings(max_examples=300, deadline=None)
    @given(st.data())
    def test_whole_frames_are_always_recovered(self, data: st.DataObject) -> None:
        """Interleaving, repetition, reordering, text around frames, and line ends anywhere cost nothing."""
        written, columns = streams_of(data, copies=1)
        lines = [line for row in zip_longest(*columns) for line in row if line is not None]
        if data.draw(st.booleans(), label="reorder"):
            lines = data.draw(st.permutations(lines), label="order")
        lines += data.draw(st.lists(st.sampled_from(lines), max_size=3), label="repeated")
        parts = []
        for line in lines:
            at = data.draw(st.integers(0, len(line)), label="line end")
            parts += [
                data.draw(HARMLESS, label="before"),
                line[:at],
                data.draw(st.sampled_from(["", "\n", "\r\n"])),
                line[at:],
            ]
        decoded = decode(pieces_of(data, "".join(parts)))
        assert decoded.messages == written
        assert decoded.lost == ()

    @settings(max_examples=800, deadline=None)
    @given(st.data())
    def test_never_wrong_and_never_silent(self, data: st.DataObject) -> None:
        """After any cuts, insertions, changed characters, moves and mixing, each message is exact or reported lost."""
        written, columns = streams_of(data, copies=data.draw(st.integers(1, 2), label="copies"))
        if data.draw(st.booleans(), label="mix inside lines"):
            step = data.draw(st.sampled_from([7, 100, 4_096]), label="step")
            texts = ["\n".join(column) for column in columns]
            cuts = [[text[at : at + step] for at in range(0, len(text), step)] for text in texts]
            text = "".join(chain.from_iterable(zip_longest(*cuts, fillvalue="")))
        else:
            text = "\n".join(line for row in zip_longest(*columns, fillvalue="") for line in row)
        for _ in range(data.draw(st.integers(1, 6), label="disturbances")):
            text = disturb(data, text)
        expected = {f"s/{index}" for index in range(len(columns))}
        decoded = decode(pieces_of(data, text), expected_streams=expected)
        assert decoded.messages.items() <= written.items()
        reported = {(one.stream, one.name) for one in decoded.lost}
        truncated = {one.stream for one in decoded.lost if one.name == CLOSING_NAME}
        for stream, name in written.keys() - decoded.messages.keys():
            assert (stream, name) in reported or stream in truncated
        assert not reported & decoded.messages.keys()

    @settings(max_examples=400, deadline=None)
    @given(st.lists(st.one_of(FOREIGN, st.text(max_size=5), st.sampled_from(list(encode(SMALL, STREAM)))), max_size=12))
    @example([BEGIN, END] * 10)
    def test_no_text_raises(self, pieces: list[str]) -> None:
        """Garbage between marks, and true frames among it, give only what was written."""
        assert decode(pieces).messages.items() <= named(SMALL).items()


def disturb(data: st.DataObject, text: str) -> str:
    """One disturbance that may hit anything."""
    low, high = sorted((data.draw(st.integers(0, len(text))), data.draw(st.integers(0, len(text)))))
    kind = data.draw(st.sampled_from(["insert", "delete", "change", "truncate", "behead", "repeat", "move"]))
    if kind == "insert":
        return text[:low] + data.draw(FOREIGN) + text[low:]
    if kind == "delete":
        return text[:low] + text[min(high, low + 2_000) :]
    if kind == "change":
        return text[:low] + data.draw(st.sampled_from("Aa017;@]%/")) + text[low + 1 :]
    if kind == "truncate":
        return text[: max(high, len(text) // 2)]
    if kind == "behead":
        return text[min(low, len(text) // 2) :]
    moved = text[low:high]
    return text[:high] + moved + text[high:] if kind == "repeat" else moved + text[:low] + text[high:]


WRITER = """
import os, random, sys
from ep_worker.contract.framing import encode
rank, num_chars = int(sys.argv[1]), int(sys.argv[2])
for line in encode({"samples": random.Random(rank).randbytes(200_000)}, f"rank-{rank}", max_frame_chars=num_chars):
    os.write(1, (line + "\\n").encode())
    os.write(1, b"Elastic buffer uses 3 channels per SM")
"""


@pytest.mark.parametrize("max_frame_chars", [4_095, 12 * 1024])
def test_four_processes_and_native_text_on_one_pipe(max_frame_chars: int) -> None:
    """Frames within `PIPE_BUF` all arrive; longer ones, which the kernel cuts, arrive exactly or are reported."""
    ranks = range(4)
    read_end, write_end = os.pipe()
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(rank), str(max_frame_chars)], stdout=write_end)
        for rank in ranks
    ]
    os.close(write_end)
    with open(read_end, encoding="utf-8", errors="replace", newline="") as log:  # noqa: PTH123 (a descriptor, no path)
        decoded = decode(log, expected_streams=[f"rank-{rank}" for rank in ranks])
    assert [writer.wait() for writer in writers] == [0, 0, 0, 0]
    written = {(f"rank-{rank}", "samples"): noise(200_000, rank) for rank in ranks}
    assert decoded.messages.items() <= written.items()
    reported = {one.stream for one in decoded.lost}
    assert {stream for stream, _ in written.keys() - decoded.messages.keys()} <= reported
    if max_frame_chars < 4_096:
        assert decoded == Decoded(written, (), {})


def test_the_contract_needs_the_standard_library_only() -> None:
    """Importing the framing brings in neither torch nor numpy nor the host side."""
    script = "import sys, ep_worker.contract.framing; print(*sorted(m.partition('.')[0] for m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"torch", "numpy", "pydantic", "ep_campaign"} & set(done.stdout.split())
