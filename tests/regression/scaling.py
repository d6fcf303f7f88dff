"""perf/scaling: series that run here, series that are submitted, and the table and picture of their results."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import support

SCALING = Path(__file__).resolve().parents[2] / "perf" / "scaling"
# Of matplotlib, for a picture for which the disk has room only in part.
STAND_IN = """
from unittest.mock import MagicMock
use, pyplot, figure = MagicMock(), MagicMock(), MagicMock()
def savefig(file, **options):
    with open(file, "wb") if isinstance(file, str) else file as picture:
        picture.write(b"half a pic")
        raise OSError(28, "No space left on device")
figure.savefig = savefig
pyplot.subplots.return_value = figure, (MagicMock(), MagicMock())
"""
WEAK_DECK = support.SMALL_DECK.replace("cuts = [3]\nreplicas = 1\n", "")


class Scaling(support.RunTest):
    def setUp(self):
        super().setUp()
        self.deck = self.write("weak.toml", WEAK_DECK)
        self.series = self.folder / "series"

    def python(self, script, *arguments, expected=0, **environment):
        result = subprocess.run([sys.executable, SCALING / script, *map(str, arguments)], capture_output=True, text=True,
                                timeout=300, env={**os.environ, **environment})
        self.assertEqual(result.returncode, expected, result.stdout + result.stderr)
        return result.stdout + result.stderr

    def scale(self, *arguments, **environment):
        return self.python("scale.py", support._app, self.deck, *arguments, **environment)

    def run_series(self, *arguments):
        launcher = f"{os.environ.get('PARTITA_MPIEXEC', 'mpiexec')} -n @RANKS@"
        self.scale(*arguments, "--ranks", 1, 2, "--repeats", 1, "--launcher", launcher)
        return [json.loads((self.series / f"ranks{ranks}-1" / "summary.json").read_text()) for ranks in (1, 2)]

    def test_strong_over_stages(self):
        one, two = self.run_series("strong", self.series)
        self.assertEqual((one["strategy"], two["strategy"]), ("joint", "sil"))
        self.assertEqual(two["grid"], {"stages": 2, "replicas": 1, "ranks": 2})
        self.assertEqual(one["parameters"], two["parameters"])
        table = self.python("plot_scaling.py", self.series)
        numbers = f"{one['samples_per_second']:.0f} | {one['parameters']}"
        self.assertIn(f"| 1 | joint | 1 x 1 | {numbers} | 1.00 | 100 % | 0 % |", table)
        ratio = two["samples_per_second"] / one["samples_per_second"]
        self.assertIn(f"| {ratio:.2f} | {50 * ratio:.0f} % |", table)

    def test_strong_over_the_stages_of_a_pipeline(self):
        one, two = self.run_series("strong", self.series, "--kind", "pipeline")
        self.assertEqual((one["strategy"], two["strategy"]), ("joint", "pipeline"))
        self.assertEqual(one["parameters_hash"], two["parameters_hash"])

    def test_runs_are_not_repeated(self):
        self.run_series("strong", self.series, "run/epochs=1")
        told = self.scale("strong", self.series, "--ranks", 1, 2, "--repeats", 1, "--launcher", "false")
        self.assertEqual(told, "")

    def test_a_run_that_was_killed_begins_again(self):
        self.run_series("strong", self.series, "run/epochs=1")
        (self.series / "ranks2-1" / "summary.json").unlink()
        self.run_series("strong", self.series, "run/epochs=1")
        self.assertTrue((self.series / "ranks2-1" / "summary.json").exists())

    def test_layers_inside_layers_are_repeated(self):
        sys.path.insert(0, str(SCALING))
        try:
            from scale import deeper
        finally:
            sys.path.pop(0)
        inside = [{"type": "dense", "bias": False, "units": 8}, {"type": "conv2d", "kernel": [3, 3]}]
        text = deeper({"network": {"layers": [{"type": "residual", "layers": inside, "repeat": 2}, {"type": "dense"}]}}, 3)
        self.assertEqual(text, 'network/layers=[{type = "residual", layers = [{type = "dense", bias = false, units = 8}, '
                               '{type = "conv2d", kernel = [3, 3]}], repeat = 6}, {type = "dense"}]')

    def test_weak_over_stages_deepens_the_network(self):
        one, two = self.run_series("weak", self.series)
        self.assertEqual(two["parameters"] - one["parameters"], 5 * (32 * 32 + 32))
        self.assertEqual([round(run["samples_per_second"] * run["train_seconds"]) for run in (one, two)], [1200, 1200])

    def test_weak_over_replicas_brings_more_samples(self):
        one, two = self.run_series("weak", self.series, "strategy/kind=joint", "--over", "replicas")
        self.assertEqual((one["parameters"], one["steps"]), (two["parameters"], two["steps"]))
        self.assertEqual(two["grid"], {"stages": 1, "replicas": 2, "ranks": 2})
        self.assertEqual([round(run["samples_per_second"] * run["train_seconds"]) for run in (one, two)], [1200, 2400])

    def test_jobs(self):
        """The job script that is submitted starts the right commands, as seen by a stand-in of the launcher."""
        tools = self.folder / "tools"
        tools.mkdir()
        for name in ("sbatch", "flux", "qsub", "srun", "mpiexec"):
            note = '#!/bin/bash\nprintf "%s" "${0##*/}" >>"$CALLS"; printf "\\t%s" "$@" >>"$CALLS"; echo >>"$CALLS"\n'
            (tools / name).write_text(note)
            (tools / name).chmod(0o755)
        calls = self.folder / "calls"
        environment = {"PATH": f"{tools}:{os.environ['PATH']}", "CALLS": str(calls), "SLURM_CPUS_PER_TASK": "1",
                       "PBS_O_WORKDIR": str(self.folder)}
        for scheduler, submits, launches in (("slurm", "sbatch", "srun"), ("flux", "flux\tbatch", "flux\trun"),
                                             ("pbs", "qsub", "mpiexec")):
            with self.subTest(scheduler=scheduler):
                series = self.folder / scheduler
                calls.write_text("")
                self.scale("strong", series, "--submit", scheduler, "--ranks", 2, "--repeats", 2, **environment)
                self.assertEqual(calls.read_text(), f"{submits}\t{series / 'ranks2.sh'}\n")
                job = (series / "ranks2.sh").read_text()
                self.assertNotIn("@", job)
                calls.write_text("")
                subprocess.run(["bash", series / "ranks2.sh"], check=True, env={**os.environ, **environment})
                lines = calls.read_text().splitlines()
                self.assertEqual(len(lines), 2)
                for number, line in enumerate(lines, 1):
                    self.assertTrue(line.startswith(launches), line)
                    words = line.split("\t")
                    self.assertEqual(words[-3:], ["-d", str(series / f"ranks2-{number}"), "--overwrite"])
                    self.assertIn("strategy/stages=2", words)
                (series / "ranks2-1").mkdir()
                (series / "ranks2-1" / "summary.json").write_text("{}")
                calls.write_text("")  # the job is requeued after its first run
                subprocess.run(["bash", series / "ranks2.sh"], check=True, env={**os.environ, **environment})
                self.assertEqual(calls.read_text().splitlines(), lines[1:])
                self.assertEqual(support.run(*words[words.index("train") :], "-n").returncode, 0)

    def test_refusals(self):
        self.assertIn("no */summary.json", self.python("plot_scaling.py", self.folder, expected=1))
        deck = self.write("all.toml", WEAK_DECK.replace("samples = 600\n", ""))
        told = self.python("scale.py", support._app, deck, "weak", self.series, "--over", "replicas", expected=1)
        self.assertIn("data/samples", told)

    def write_summaries(self):
        for ranks, rate in ((1, 1000.0), (2, 1900.0)):
            run = self.series / f"ranks{ranks}-1"
            run.mkdir(parents=True)
            summary = {"grid": {"stages": ranks, "replicas": 1, "ranks": ranks}, "strategy": "sil",
                       "samples_per_second": rate, "parameters": 7}
            (run / "summary.json").write_text(json.dumps(summary))

    @support.unittest.skipUnless(importlib.util.find_spec("matplotlib"), "there is no matplotlib")
    def test_picture(self):
        self.write_summaries()
        told = self.python("plot_scaling.py", self.series, "-o", self.folder / "scaling.png")
        self.assertIn("| 2 | sil | 2 x 1 | 1900 | 7 | 1.90 | 95 % |", told)
        self.assertEqual((self.folder / "scaling.png").read_bytes()[:4], b"\x89PNG")

    def test_a_picture_is_complete_or_the_old_one(self):
        self.write_summaries()
        picture = self.write("scaling.png", "the old one")
        self.write("matplotlib.py", STAND_IN)
        told = self.python("plot_scaling.py", self.series, "-o", picture, expected=1, PYTHONPATH=str(self.folder))
        self.assertIn("scaling.png: no space left on device", told)
        self.assertEqual(picture.read_text(), "the old one")
        told = self.python("plot_scaling.py", self.series, "-o", self.series / "ranks1-1" / "summary.json", expected=1,
                           PYTHONPATH=str(self.folder))
        self.assertIn("has the name of a file of the run", told)


if __name__ == "__main__":
    support.main()
