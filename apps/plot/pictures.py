"""Code shared by the scripts in this folder that write pictures."""

import io
import os
import sys

from output_files import refuse_inputs, write
from run_files import RunError


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


def save(figure, output, runs=(), files=()):
    """Writes a picture, but never in place of a file of these runs, or of one of these files."""
    suffix = os.path.splitext(output)[1][1:]
    if not suffix:
        fail(f"{output}: needs an extension, such as .png, which determines the format")
    picture = io.BytesIO()
    try:
        refuse_inputs(output, runs, files)
        figure.savefig(picture, format=suffix.lower(), dpi=150)
        write(picture.getvalue(), output)
    except OSError as error:
        fail(f"{output}: {(error.strerror or str(error)).lower()}")
    except (RunError, ValueError) as error:
        fail(str(error) if isinstance(error, RunError) else f"{output}: {error}")
