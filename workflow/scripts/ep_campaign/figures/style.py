"""How every figure looks: one width, one font, colours for colour-blind readers, markers and hatches for grey print."""

from __future__ import annotations

import io
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.colors import to_rgb

from ep_campaign.figures.names import SUFFIXES
from ep_worker.contract.canonical import write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from matplotlib.figure import Figure

MM_PER_INCH = 25.4
WIDTH_MM = 180.0
DPI = 200

TITLE_PT, TEXT_PT, SMALL_PT = 9.0, 7.5, 7.0
MARK_PT, MIN_MARK_PT = 3.4, 2.0
POINTS_PER_MM = 72 / MM_PER_INCH
CHAR_MM = 1.5
"""Width of a character at 7.5 pt, amply: names are mostly narrower."""
INK, GREY, SHADE, PALE, ALARM = "#222222", "#595959", "#DCDCDC", "#E6E6E6", "#B00020"

# Okabe and Ito, "Color Universal Design" (2008), darkest first; its yellow is left out: it cannot be seen on white.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")
_HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "++++", "oo", "--")

# The plotting library's own defaults lie below these: nothing of a user's or a machine's settings reaches a figure.
_SETTINGS: Any = {
    "font.family": "DejaVu Sans",
    "font.size": TEXT_PT,
    "axes.titlesize": TEXT_PT,
    "axes.labelsize": TEXT_PT,
    "xtick.labelsize": SMALL_PT,
    "ytick.labelsize": SMALL_PT,
    "legend.fontsize": SMALL_PT,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": PALE,
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.frameon": False,
    "svg.hashsalt": "ep-campaign",
    "svg.fonttype": "path",
    "text.parse_math": False,
    "figure.dpi": DPI,
    "savefig.dpi": DPI,
}


@dataclass(frozen=True)
class Look:
    """How one arm is drawn, the same in every figure of a campaign."""

    colour: str
    marker: str
    hatch: str


def looks(arms: Sequence[str]) -> dict[str, Look]:
    """A look for each arm; colours and markers have different periods, so that 56 arms differ."""
    return {
        arm: Look(_COLOURS[index % len(_COLOURS)], _MARKERS[index % len(_MARKERS)], _HATCHES[index % len(_HATCHES)])
        for index, arm in enumerate(arms)
    }


def lighter(colour: str, share: float) -> tuple[float, float, float]:
    """A colour mixed with a share of white."""
    red, green, blue = to_rgb(colour)
    return (red + (1 - red) * share, green + (1 - green) * share, blue + (1 - blue) * share)


def inches(millimetres: float) -> float:
    """A length in the plotting library's unit."""
    return millimetres / MM_PER_INCH


@contextmanager
def style() -> Iterator[None]:
    """Draws by these settings, whatever the machine's are, and leaves the machine's as they were."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)
        yield


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Writes a figure as SVG and PNG, without a date or a version in it; equal figures give equal bytes."""
    paths = []
    for suffix in SUFFIXES:
        stream = io.BytesIO()
        metadata: dict[str, Any] = (
            {"Date": None, "Creator": None, "Format": None, "Type": None} if suffix == ".svg" else {"Software": None}
        )
        figure.savefig(stream, format=suffix[1:], metadata=metadata)
        path = folder / f"{name}{suffix}"
        write_atomically(path, stream.getvalue())
        paths.append(path)
    return paths
