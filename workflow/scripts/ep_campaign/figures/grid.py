"""How the cells of one EP size and profile are laid out: routes down, dtypes across; one route or dtype alone is wrapped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ep_campaign.figures.scale import Axis, value_axis
from ep_campaign.numbers import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes

    from ep_campaign.figures.view import View
    from ep_campaign.summary import Cell, Level

MANY_ARMS = 6
"""More arms than this get panels of the whole width."""

Grid = list[list["Cell | None"]]


def cell_grid(cells: list[Cell], num_arms: int) -> Grid:
    """Cells by row and column; None where a row ends early."""
    if num_arms > MANY_ARMS:
        return [[cell] for cell in cells]
    routes = list(dict.fromkeys(cell.route for cell in cells))
    dtypes = list(dict.fromkeys(cell.dtype for cell in cells))
    if len(dtypes) > 1:
        by_key = {(cell.route, cell.dtype): cell for cell in cells}
        return [[by_key.get((route, dtype)) for dtype in dtypes] for route in routes]
    columns = min(2, len(cells))
    padded: list[Cell | None] = [*cells, *[None] * (-len(cells) % columns)]
    return [padded[start : start + columns] for start in range(0, len(padded), columns)]


def placed(grid: Grid, axes: list[list[Axes]]) -> Iterator[tuple[list[Cell], list[Axes]]]:
    """Cells and panels of each row; panels without a cell are taken off."""
    for row, panels in zip(grid, axes, strict=True):
        pairs = list(zip(row, panels, strict=True))
        for cell, panel in pairs:
            if cell is None:
                panel.remove()
        kept = [(cell, panel) for cell, panel in pairs if cell is not None]
        yield [cell for cell, _ in kept], [panel for _, panel in kept]


def cell_title(cell: Cell) -> str:
    """What a panel is about, its figure naming EP size and profile."""
    return f"route {cell.route}, {cell.dtype.value} dispatch"


def primary_levels(view: View, cells: Sequence[Cell | None]) -> list[Level]:
    """The levels of some cells at the primary boundary and mode that have a value."""
    found = [view.primary(cell.id, arm) for cell in cells if cell is not None for arm in view.arms]
    return [level for level in found if level is not None and level.values_us]


def primary_axis(view: View, cells: Sequence[Cell | None]) -> Axis:
    """The value axis that the panels of some cells share."""
    return value_axis([level.values_us for level in primary_levels(view, cells)])


def cut_note(view: View, grid: Grid, axes: list[Axis]) -> list[str]:
    """How many starts lie above their axis, as a note; none where none does."""
    number = sum(
        axis.cuts(value)
        for row, axis in zip(grid, axes, strict=True)
        for level in primary_levels(view, row)
        for value in level.values_us
    )
    return [f"{plural(number, 'start')} above the axis: drawn as an arrow, with the value."] if number else []
