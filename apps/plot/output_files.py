"""The files that the scripts in this folder write: complete or not at all, and never in place of what they read.

They need the standard library only. All errors are RunError, with one clear line, or OSError."""

import os
import re
import stat
import tempfile

from run_files import RunError, print_name

# The names in a run directory that belong to the run (docs/run-directory.md), and all that lies in its checkpoints.
OWN_NAME = re.compile(r"((deck\.toml|(history|workers|decisions)\.csv|(summary|trace)\.json|parameters\.h5)"
                      r"(\.partial|\.superseded.*)?|\.partita\.lock|output_now|checkpoints)", re.DOTALL)
MOST_LINKS, STANDARD_OUTPUT = 40, 1


def files_of_run(folder):
    """The files of a run that are there."""
    checkpoints = os.path.join(folder, "checkpoints")
    files = [os.path.join(folder, name) for name in os.listdir(folder) if OWN_NAME.fullmatch(name)]
    try:
        files += [os.path.join(checkpoints, name) for name in os.listdir(checkpoints)]
    except OSError:  # there are none, or none that could be replaced by name
        pass
    return [path for path in files if os.path.isfile(path)]


def has_name_of_run(folder, path):
    """Would a file of this name, which need not exist yet, be one of the run?"""
    within, checkpoints = os.path.realpath(folder), os.path.realpath(os.path.join(folder, "checkpoints"))
    parent, last = os.path.split(os.path.abspath(path))
    for place, name in ((os.path.realpath(parent), last), os.path.split(os.path.realpath(path))):  # a link, its target
        if place == within and OWN_NAME.fullmatch(name):
            return True
        if place == checkpoints and (os.path.dirname(checkpoints) == within or name.startswith("step-")):
            return True  # a link to a scratch folder, which may have files of others
    return False


def belongs_to_run(folder, path):
    """Whether a path is that of a file of the run, under whatever name."""
    if has_name_of_run(folder, path):
        return True
    return os.path.isfile(path) and any(os.path.samefile(own, path) for own in files_of_run(folder))


def in_another_run(output):
    """Is the output in a run directory, with a name that belongs to the run?"""
    for path in (os.path.abspath(output), os.path.realpath(output)):
        folder, name = os.path.split(path)
        is_checkpoint = os.path.basename(folder) == "checkpoints" and name.startswith("step-")
        run = os.path.dirname(folder) if is_checkpoint else folder
        if not is_checkpoint and not OWN_NAME.fullmatch(name):
            continue
        if os.path.isdir(run) and any(OWN_NAME.fullmatch(own) and own != "deck.toml" for own in os.listdir(run)):
            return True
    return False


def refuse_inputs(output, runs=(), files=()):
    """Refuses the name of a directory, of a file that is read, or of one that belongs to a run."""
    if os.path.isdir(output):
        raise RunError(f"{output}: is a directory")
    if any(belongs_to_run(run, output) for run in runs):
        raise RunError(f"{output}: is a file of the run itself")
    if in_another_run(output):
        raise RunError(f"{output}: has the name of a file of the run in this directory")
    if any(os.path.exists(path) and os.path.exists(output) and os.path.samefile(path, output) for path in files):
        raise RunError(f"{output}: is a file that this script reads")


def refuse_others(output, mark, kind):
    """Refuses to replace a file that does not begin with `mark`, as each of this `kind` does."""
    if descriptor_of(output) is not None or not os.path.isfile(output) or os.path.getsize(output) == 0:
        return
    with open(output, "rb") as file:
        if file.read(len(mark)) != mark.encode():
            raise RunError(f"{output}: is not a {kind} of this script and would be overwritten; "
                           "choose another --output, or add --overwrite")


def descriptor_of(path):
    """The number of the descriptor of this process that a path names, as /dev/fd/3 does, or None."""
    own = os.path.realpath("/proc/self/fd")
    for _ in range(MOST_LINKS):
        folder, name = os.path.split(os.path.abspath(path))
        if os.path.realpath(folder) == own and re.fullmatch("[0-9]{1,9}", name):
            return int(name)
        if not os.path.islink(path):
            break
        path = os.path.join(folder, os.readlink(path))
    return None


def write_to_descriptor(content, number, output):
    """Writes at its current position: opened again by its name, it would be another file, or written from its start."""
    print(end="", flush=True)
    try:
        with os.fdopen(os.dup(number), "wb") as file:
            file.write(content)
    except OSError as error:
        raise RunError(f"{output}: descriptor {number} cannot be written: {error.strerror.lower()}") from None


def write(content, output):
    """Stores bytes and prints the name of the file, unless it is standard output, which then contains nothing else."""
    store(content, output)
    if descriptor_of(output) != STANDARD_OUTPUT:
        print_name(output)


def store(content, output):
    """Writes bytes beside the target and renames the file at the end. Writes directly to descriptors and pipes."""
    target, descriptor = os.path.realpath(output), descriptor_of(output)
    if descriptor is not None:
        write_to_descriptor(content, descriptor, output)
    elif os.path.exists(target) and not stat.S_ISREG(os.stat(target).st_mode):
        with open(target, "wb") as file:  # a pipe stays what it is
            file.write(content)
    else:
        replace(content, target)


def replace(content, target):
    if os.path.exists(target):
        mode = stat.S_IMODE(os.stat(target).st_mode)
    else:
        mask = os.umask(0)
        os.umask(mask)
        mode = 0o666 & ~mask
    handle, partial = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".partita-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # renamed before it is on the disk, it could be empty after a crash
        os.chmod(partial, mode)
        os.replace(partial, target)
    except BaseException:
        os.unlink(partial)
        raise
