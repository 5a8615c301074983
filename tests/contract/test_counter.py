"""Counter-based draws: the array form, the scalar form and the published test vectors agree."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ep_worker.contract.counter import Stream, as_signed, draw_int, draws, mix_int, stream_key, word_int, words


def test_mix_is_splitmix64():
    """SplitMix64 seeded with 1234567 gives the generator's well-known first outputs."""
    gamma = 0x9E3779B97F4A7C15
    outputs = [mix_int(1234567 + gamma * (index + 1)) for index in range(5)]

    # First outputs of splitmix64 for seed 1234567, as the Rosetta Code task "Pseudo-random numbers/Splitmix64" lists them.
    expected = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    assert expected == outputs


@given(seed=st.integers(0, 2**63 - 1), counter=st.integers(0, 2**62), stream=st.sampled_from(Stream))
def test_array_and_scalar_forms_agree(seed, counter, stream):
    """A word and a draw of an array are those of the Python integers."""
    key = stream_key(seed, stream)
    array = np.array([counter], dtype=np.int64)

    assert [as_signed(word_int(counter, key))] == words(array, key).tolist()
    assert [draw_int(counter, key)] == draws(array, key).tolist()
    assert 0 <= draw_int(counter, key) < 2**62


def test_streams_are_apart():
    """Two streams of one seed share no draw among the first thousand."""
    drawn = [set(draws(np.arange(1000, dtype=np.int64), stream_key(7, stream)).tolist()) for stream in Stream]

    assert sum(map(len, drawn)) == len(set.union(*drawn)) == 1000 * len(Stream)
