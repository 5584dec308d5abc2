"""A figure that a notebook shows although pyplot did not make it."""

from __future__ import annotations

import io

from matplotlib.figure import Figure


class ShownFigure(Figure):
    """matplotlib's figure with the method by which notebooks ask an object for its picture.

    A figure of pyplot is shown by the notebook's backend; one made without it would appear as its ``repr``.
    """

    def _repr_png_(self) -> bytes:
        stream = io.BytesIO()
        self.savefig(stream, format="png", dpi=100)
        return stream.getvalue()
