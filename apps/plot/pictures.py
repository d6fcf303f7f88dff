"""Code shared by the scripts in this folder that write pictures."""

import os
import sys

from run_files import print_name


def fail(message):
    sys.exit(f"{os.path.basename(sys.argv[0])}: {message}")


def start_pyplot():
    """matplotlib.pyplot, for pictures in files and in the style of these scripts."""
    try:
        import matplotlib
    except ImportError:
        fail("matplotlib is missing: install python3-matplotlib, or pip install matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
                            "grid.alpha": 0.25, "grid.linewidth": 0.6, "legend.frameon": False})
    return pyplot


def save(figure, output):
    try:
        figure.savefig(output, dpi=150)
    except (OSError, ValueError) as error:
        fail(f"{output}: {error}")
    print_name(output)
