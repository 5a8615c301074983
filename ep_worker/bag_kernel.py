"""The Triton kernel of `bag.sum_bags`; imported on a GPU only.

Legend: S rows, P entries of all bags, M bags, H columns. One program sums one block of columns of one bag.
"""

# No `from __future__ import annotations`: Triton reads the constexpr annotations as objects.
import triton
import triton.language as tl


@triton.jit
def sum_bags_kernel(
    rows_SH,
    entry_P,
    start_M,
    weight_P,
    out_MH,
    num_entries,
    num_bags,
    num_columns,
    weighted: tl.constexpr,
    block: tl.constexpr,
):
    """Adds the rows of a bag in float32, in their order, and rounds once."""
    bag = tl.program_id(0)
    column = tl.program_id(1) * block + tl.arange(0, block)
    inside = column < num_columns
    first = tl.load(start_M + bag)
    end = tl.load(start_M + bag + 1, mask=bag + 1 < num_bags, other=num_entries)
    total = tl.zeros((block,), tl.float32)
    for index in range(first, end):
        row = tl.load(entry_P + index)
        value = tl.load(rows_SH + row * num_columns + column, mask=inside, other=0).to(tl.float32)
        if weighted:
            value *= tl.load(weight_P + index)
        total += value
    tl.store(out_MH + bag.to(tl.int64) * num_columns + column, total.to(tl.bfloat16), mask=inside)
