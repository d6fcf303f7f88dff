"""What tests take away from runs: processes, and room on disks."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

import support


class EndedEarly(AssertionError):
    """A run was finished before something that should have come first."""


class Job:
    """A run under way, whose ranks get signals as a batch system sends them: a launcher would end them after a moment.
    Its output goes to files, since nobody reads it before the end."""

    def __init__(self, *arguments, ranks=1, before=None, environment=None):
        """`before`: what is called in the new process before the program starts."""
        self._name, self._ranks = uuid.uuid4().hex, ranks
        self._texts = [tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")]
        self.begin = time.time()
        self._process = support.start(*arguments, ranks=ranks, outputs=self._texts, before=before,
                                      environment={**(environment or {}), "PARTITA_TEST_JOB": self._name})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._process.poll() is None:
            self.signal(signal.SIGKILL)
            self._process.kill()
            self._process.wait()
        for text in self._texts:
            text.close()

    def ranks(self):
        """Ids of the running processes, by rank."""
        return support.rank_processes(self._name)

    def all_ranks(self):
        """The same, as soon as all have started."""
        self.until(lambda: len(self.ranks()) == self._ranks, "ranks")
        return self.ranks()

    def running(self):
        return self._process.poll() is None

    def signal(self, number, processes=None):
        """To all ranks, or to some processes."""
        for process in self.ranks().values() if processes is None else processes:
            try:
                os.kill(process, number)
            except ProcessLookupError:
                pass

    def started(self):
        """Has the program printed anything? Before that, a launcher whose ranks are killed may hang."""
        return os.fstat(self._texts[0].fileno()).st_size > 0

    def wait(self, seconds):
        """Waits this long, or until the run ends."""
        end = time.time() + seconds
        while self.running() and time.time() < end:
            time.sleep(0.001)

    def wait_for(self, condition, timeout=support.HANGS):
        """Waits until the condition holds or the run ends."""
        end = time.time() + timeout
        while self.running() and not condition():
            if time.time() > end:
                raise AssertionError(f"waited {timeout} s, and the run goes on\n{self._text()}")
            time.sleep(0.001)

    def until(self, condition, what, timeout=support.HANGS):
        """Waits for something that has to come before the end of the run."""
        end = time.time() + timeout
        while True:
            running = self.running()  # asked first, so that what came before the end is seen
            if condition():
                return
            if not running:
                finished = self._process.returncode == 0
                raise (EndedEarly if finished else AssertionError)(f"the run ended before: {what}\n{self._text()}")
            if time.time() > end:
                raise AssertionError(f"waited {timeout} s for: {what}\n{self._text()}")
            time.sleep(0.02)

    def said(self):
        """All output so far; the ranks go on writing where they are."""
        return "".join(os.pread(text.fileno(), os.fstat(text.fileno()).st_size, 0).decode() for text in self._texts)

    def _text(self):
        return "\n".join(self.said().splitlines()[-40:])

    def finish(self, timeout=support.HANGS):
        """The finished process, as `run` returns it, with the seconds that it took; no rank is left behind."""
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {timeout} s: ranks {self.ranks()}\n{self._text()}") from None
        seconds = time.time() - self.begin
        for text in self._texts:
            text.seek(0)
        result = subprocess.CompletedProcess(self._process.args, code, *(text.read() for text in self._texts))
        result.seconds = seconds
        end = time.time() + support.within(10)
        while self.ranks() and time.time() < end:
            time.sleep(0.01)
        if self.ranks():
            raise AssertionError(f"a rank is left running: {self.ranks()}\n{result.stderr}")
        return result


def mounted(folder, size):
    """True if the folder is now a disk of its own."""
    return subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True,
                          check=False).returncode == 0


def may_mount():
    with tempfile.TemporaryDirectory() as folder:
        possible = mounted(folder, "1m")
        if possible:
            subprocess.run(["umount", folder], check=True)
    return possible


def with_own_mounts():
    """Starts this script again where it may mount, even if only for its own processes."""
    command = ["unshare", "-rm", sys.executable, *sys.argv]
    if may_mount() or "PARTITA_TEST_UNSHARED" in os.environ or shutil.which("unshare") is None:
        return
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode == 0:
        os.execvpe("unshare", command, {**os.environ, "PARTITA_TEST_UNSHARED": "1"})


def fill(folder, left):
    """Fills the disk of a folder, except for some bytes, with a file `filler`."""
    with (folder / "filler").open("wb", buffering=0) as file:
        try:
            while file.write(bytes(65536)) == 65536:
                pass
        except OSError:
            pass
        file.truncate(max(0, file.tell() - left))
