"""A Matplotlib backend for programs without a screen: plt.show() saves.

Where a window would open, each open figure is written as a PNG to the working
directory, named figure-1.png, figure-2.png and so on. A file that exists is never
overwritten, and the figures are closed, as they are when their windows are.

/etc/matplotlibrc chooses it; matplotlib.use() and MPLBACKEND choose another.
"""

import itertools

from matplotlib import pyplot
from matplotlib._pylab_helpers import Gcf
from matplotlib.backend_bases import FigureManagerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg


class FigureManager(FigureManagerBase):
    """One open figure, which has no window."""

    @classmethod
    def pyplot_show(cls, *, block=None):
        """Save every open figure, in the order they were made, and close them."""
        for manager in sorted(Gcf.get_all_fig_managers(), key=lambda m: m.num):
            manager.show()
            pyplot.close(manager.canvas.figure)

    def show(self):
        """Save this figure: what fig.show() does."""
        for n in itertools.count(1):
            try:
                file = open(f"figure-{n}.png", "xb")
            except FileExistsError:
                continue
            with file:
                self.canvas.print_png(file)
            return


class FigureCanvas(FigureCanvasAgg):
    manager_class = FigureManager


def show(*, block=None):
    """What pyplot.show calls in versions that do not ask the manager."""
    FigureManager.pyplot_show(block=block)
