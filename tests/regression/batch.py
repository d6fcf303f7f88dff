"""The scripts of batch/: what they start, and what they do with its exit code.

They run with stand-ins for the commands of the cluster in PATH, which record how they are called. The stand-in for a
launcher ends with the exit code that the test wants, or starts what it was given, once and as a dry run.
"""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import support
from support import run

BATCH = Path(__file__).resolve().parents[2] / "batch"
SCRIPTS = sorted(BATCH.glob("*.sh"))
LAUNCHERS = {"slurm": "srun", "flux": "flux run", "pbs": "mpiexec", "lsf": "jsrun"}
SUBMITTERS = {"slurm": "scontrol", "flux": "flux --parent batch", "pbs": "qsub", "lsf": "bsub"}
DIRECTIVES = {"slurm": "#SBATCH --", "flux": "# flux: --", "pbs": "#PBS -", "lsf": "#BSUB -"}
KNOWN_DIRECTIVES = {
    "slurm": {"job-name", "nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "gpus", "gpus-per-task", "time", "output",
              "open-mode", "requeue", "signal"},
    "flux": {"job-name", "nodes", "nslots", "cores-per-slot", "exclusive", "time-limit", "output"},
    "pbs": {"N", "l", "j"},
    "lsf": {"J", "nnodes", "W", "o"},
}
# Notes its name and arguments, each call a line; the launchers end with $CODE. bsub reads the script.
STAND_IN = """#!/bin/bash
case ${0##*/} in bsub) set -- "$(readlink /proc/self/fd/0)" ;; esac
printf '%s' "${0##*/}" >>"$CALLS"; printf '\\t%s' "$@" >>"$CALLS"; echo >>"$CALLS"
case "${0##*/} ${1:-}" in srun* | mpiexec* | jsrun* | "flux run") exit "$CODE" ;; esac
"""


def kind(script):
    return script.stem.split("-")[0]


class Scripts(support.RunTest):
    def setUp(self):
        super().setUp()
        tools = self.folder / "tools"
        tools.mkdir()
        for name in ("srun", "mpiexec", "jsrun", "flux", "scontrol", "qsub", "bsub"):
            tool = tools / name
            tool.write_text(STAND_IN)
            tool.chmod(0o755)
        for script in SCRIPTS:
            shutil.copy(script, self.folder)
        self.environment = {"PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(self.folder), "USER": "me", "SLURM_JOB_ID": "17",
                            "SLURM_CPUS_PER_TASK": "8", "SLURM_SUBMIT_DIR": str(self.folder), "PBS_O_HOST": "login",
                            "PBS_O_WORKDIR": str(self.folder), "LS_SUBCWD": str(self.folder), "CALLS": str(self.folder / "calls")}

    def start(self, script, code):
        """Exit code of the script, and how it called launcher and scheduler."""
        (self.folder / "calls").write_text("")
        result = subprocess.run(["bash", script], capture_output=True, text=True, timeout=support.HANGS, cwd=self.folder,
                                env={**self.environment, "CODE": str(code)})
        self.assertEqual(result.stderr, "")
        calls = [line.split("\t") for line in (self.folder / "calls").read_text().splitlines()]
        launched = [call for call in calls if " ".join(call).startswith(LAUNCHERS[kind(script)])]
        submitted = [call for call in calls if call not in launched]
        self.assertEqual(len(launched), 1)
        return result.returncode, launched[0], submitted

    def test_there_are_scripts(self):
        self.assertEqual({kind(script) for script in SCRIPTS}, LAUNCHERS.keys())
        for scheduler in LAUNCHERS:
            self.assertIn(BATCH / f"{scheduler}-mpmd.sh", SCRIPTS)
            self.assertIn(BATCH / f"{scheduler}-requeue.sh", SCRIPTS)

    def test_exit_codes(self):
        for script in SCRIPTS:
            for code in (0, 1, 2, 137):
                with self.subTest(script=script.name, code=code):
                    returned, _, submitted = self.start(script, code)
                    self.assertEqual((returned, submitted), (code, []))

    def test_stopped_runs_are_submitted_again_once(self):
        for script in SCRIPTS:
            if script.stem == "slurm-plain":
                continue
            with self.subTest(script=script.name):
                returned, _, submitted = self.start(script, 75)
                self.assertEqual((returned, len(submitted)), (0, 1))
                self.assertTrue(" ".join(submitted[0]).startswith(SUBMITTERS[kind(script)]), submitted)
                self.assertEqual(submitted[0][-1], "17" if kind(script) == "slurm" else str(self.folder / script.name))

    def test_a_submission_that_fails_is_reported(self):
        for script in SCRIPTS:
            if script.stem == "slurm-plain":
                continue
            for name in ("scontrol", "qsub", "bsub"):
                (self.folder / "tools" / name).write_text("#!/bin/bash\nexit 9\n")
            (self.folder / "tools" / "flux").write_text(STAND_IN + "exit 9\n")
            with self.subTest(script=script.name):
                result = subprocess.run(["bash", script], capture_output=True, timeout=support.HANGS, cwd=self.folder,
                                        env={**self.environment, "CODE": "75"})
                self.assertEqual(result.returncode, 9)

    def test_a_plain_job_passes_the_code_on(self):
        self.assertEqual(self.start(BATCH / "slurm-plain.sh", 75)[::2], (75, []))

    def test_the_warning_goes_to_the_ranks_and_in_time(self):
        for script in SCRIPTS:
            text = script.read_text()
            if script.stem == "slurm-plain":
                continue
            with self.subTest(script=script.name):
                if kind(script) == "slurm":
                    self.assertIn("#SBATCH --signal=TERM@300\n", text)
                    self.assertIn("#SBATCH --requeue\n", text)
                    self.assertIn("--kill-on-bad-exit=0 --wait=8", text)
                else:
                    self.assertIn(" -t 03:50:00", text)
                    self.assertRegex(text, "(--time-limit=4h|walltime=04:00:00|-W 4:00)\n")

    def test_directives(self):
        for script in SCRIPTS:
            with self.subTest(script=script.name):
                lines = script.read_text().splitlines()
                directives = [line for line in lines if line.startswith(DIRECTIVES[kind(script)])]
                names = {re.match(r"-*(\w[\w-]*)", line[len(DIRECTIVES[kind(script)]) :])[1] for line in directives}
                self.assertEqual(names - KNOWN_DIRECTIVES[kind(script)], set())
                first_command = next(i for i, line in enumerate(lines) if line and not line.startswith("#"))
                self.assertTrue(all(lines.index(line) < first_command for line in directives), "too late to be read")

    def commands(self, script):
        """What the ranks of a script start, as lists of words."""
        if script.stem == "slurm-mpmd":
            words = re.findall(r"^[\d-]+ +(\$\w+ train .*)$", script.read_text(), re.MULTILINE)
            return [["partita", *line.split()[1:]] for line in words]
        _, call, _ = self.start(script, 0)
        begins = [i for i, word in enumerate(call) if word == "train"]
        ends = [call.index(":", begin) if ":" in call[begin:] else len(call) for begin in begins]
        return [["partita", *call[begin:end]] for begin, end in zip(begins, ends)]

    def test_the_program_takes_what_it_is_given(self):
        for script in SCRIPTS:
            commands = self.commands(script)
            with self.subTest(script=script.name):
                self.assertEqual(len(commands), 2 if script.stem in ("slurm-mpmd", "pbs-mpmd") else 1)
            for command in commands:
                self.assertEqual(command[1], "train")
                deck, *options = command[2:]
                options = [str(self.folder / "run") if word.startswith("$run") else word for word in options]
                with self.subTest(script=script.name, options=options):
                    self.assertDone(run("train", self.deck, *options, "-n"))

    def test_tasks_pick_their_build(self):
        for name, variable in (("flux", "FLUX_TASK_RANK"), ("lsf", "OMPI_COMM_WORLD_RANK")):
            _, call, _ = self.start(BATCH / f"{name}-mpmd.sh", 0)
            for rank, build in (("0", "gpu"), ("1", "host"), ("3", "host")):
                environment = {**self.environment, variable: rank, "gpu_build": "/bin/echo", "host_build": "/bin/echo"}
                environment[f"{build}_build"] = "/usr/bin/printf"
                told = subprocess.run(call[call.index("bash") :], capture_output=True, text=True, env=environment)
                self.assertEqual(told.stdout, "train", "printf prints its first argument alone")

    def test_a_cancelled_lsf_job_does_not_come_back(self):
        """Although the run ends with 75: bkill sends SIGINT to the script too."""
        (self.folder / "tools" / "jsrun").write_text("#!/bin/bash\nkill -INT $PPID\nexit 75\n")
        for script in SCRIPTS:
            if kind(script) == "lsf":
                calls = self.folder / "calls"
                calls.write_text("")
                result = subprocess.run(["bash", script], timeout=support.HANGS, cwd=self.folder, env=self.environment,
                                        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
                self.assertEqual((result.returncode, calls.read_text()), (130, ""))

    def test_shell(self):
        for script in SCRIPTS:
            with self.subTest(script=script.name):
                self.assertTrue(os.access(script, os.X_OK))
                self.assertEqual(subprocess.run(["bash", "-n", script]).returncode, 0)

    @support.unittest.skipUnless(shutil.which("shellcheck"), "there is no shellcheck")
    def test_shellcheck(self):
        checked = subprocess.run(["shellcheck", *SCRIPTS], capture_output=True, text=True)
        self.assertEqual(checked.returncode, 0, checked.stdout)


if __name__ == "__main__":
    support.main()
