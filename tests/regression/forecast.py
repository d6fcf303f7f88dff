"""run/cluster: a run reports what was predicted for it and what it has measured."""

import json
import math

import support
from support import run, summary_of

CLUSTER = """
[cluster]
name = "here"
[compute]
flops = 1e9
[[link]]
latency = 1e-5
bandwidth = 1e9
"""
# Each message between parts or stages is late at random, so that every rank waits for each kind.
LATE = {"PARTITA_LINKS": "delay=1e-3"}
# Ranks; the kinds of communication that all ranks wait for, because computing hides none of it; those that some may
# wait for as well.
VARIANTS = {
    "joint": (1, set(), set()),
    "checkpoints": (1, set(), set()),
    "replicas": (2, {"gradients"}, set()),
    "local-sgd": (2, {"parameters"}, set()),
    "pipeline": (2, {"stage"}, set()),
    "relay": (2, set(), {"stage"}),
    "free": (2, set(), set()),
    "frozen": (2, set(), {"stage"}),
    "frozen on a rank": (1, set(), set()),
    "parts": (2, {"all_gather", "reduce_scatter", "all_reduce"}, set()),
    "parts of stages": (4, {"all_gather", "reduce_scatter", "stage"}, {"all_reduce"}),
    "tokens in parts": (2, {"all_gather", "all_reduce"}, set()),
}
# With one position nothing is gathered but the sums over classes.
TOKENS = ("data/kind=grammar", "data/classes=0", "data/sequence=1",
          'network/layers=[{ type = "embedding", width = 64 }, { type = "dense" }]')
KEYS = {
    "joint": ("strategy/kind=joint",), "replicas": ("strategy/kind=joint",),
    "local-sgd": ("strategy/kind=local-sgd", "strategy/every=1"),  # with 15 sums, no rank is the last one at each
    "checkpoints": ("strategy/kind=joint", "checkpoint/every=2"),
    "parts": ("strategy/kind=joint", "strategy/parts=2"),
    "tokens in parts": ("strategy/kind=joint", "strategy/parts=2", "strategy/split=grid", *TOKENS),
    "parts of stages": ("strategy/kind=pipeline", "strategy/stages=2", "strategy/cuts=[2]", "strategy/microbatches=2",
                        "strategy/schedule=1f1b", "strategy/parts=2"),
    "pipeline": ("strategy/kind=pipeline", "strategy/stages=2", "strategy/cuts=[2]", "strategy/microbatches=2"),
    **{name: ("strategy/kind=sil", "strategy/stages=2", "strategy/cuts=[2]", f"strategy/input={name}")
       for name in ("relay", "free", "frozen")},
    "frozen on a rank": ("strategy/kind=sil", "strategy/stages=2", "strategy/cuts=[2]", "strategy/input=frozen"),
}


class Forecasts(support.RunTest):
    def test_every_strategy(self):
        cluster = self.write("cluster.toml", CLUSTER)
        for name, (ranks, exposed, others) in VARIANTS.items():
            with self.subTest(name):
                for attempt in range(8):  # LATE does not delay sums, so a rank may happen not to wait for any
                    folder = self.folder / f"{name}-{attempt}"
                    result = run("train", self.deck, *KEYS[name], f"run/cluster={cluster}", "run/epochs=1",
                                 "strategy/replicas=0", "-d", folder, ranks=ranks, environment=LATE)
                    self.assertEqual(result.returncode, 0, result.stderr)  # stages that learn little are warned about
                    self.assertRegex(result.stdout, r"predicted [0-9.e+-]+ ms per step, measured [0-9.e+-]+ ms \([+-]")
                    summary = summary_of(folder)
                    predicted, measured, error = (summary[key] for key in ("predicted", "measured", "prediction_error"))
                    if all(measured["communication"][kind] > 0 for kind in exposed):
                        break
                self.assertEqual(predicted.keys(), {"step_s", "compute_s", "communication", "memory_bytes"})
                self.assertEqual(measured.keys(), predicted.keys())
                for cost, agreement in ((predicted, set()), (measured, {"other"})):
                    found = {kind for kind, seconds in cost["communication"].items() if seconds > 0}
                    self.assertEqual(exposed - found, set())
                    self.assertEqual(found - exposed - others - agreement, set())
                self.assertEqual(measured["communication"].keys(), predicted["communication"].keys())
                for cost in (predicted, measured):
                    self.assertGreater(cost["compute_s"], 0)
                    parts = cost["compute_s"] + sum(cost["communication"].values())
                    self.assertAlmostEqual(parts / cost["step_s"], 1, places=3)
                steps = summary["steps"]
                self.assertAlmostEqual(measured["step_s"] * steps / summary["train_seconds"], 1, delta=0.01)
                self.assertAlmostEqual(error["step_s"], predicted["step_s"] / measured["step_s"] - 1)
                self.assertEqual(measured["memory_bytes"], max(summary["peak_device_bytes"]))
                self.assertLess(abs(error["memory_bytes"]), 0.1)

    def test_the_prediction_is_that_of_the_command(self):
        cluster = self.write("cluster.toml", CLUSTER)
        result = run("train", self.deck, *KEYS["relay"], f"run/cluster={cluster}", "-n", "--ranks", 2)
        self.assertDone(result)
        line, = (line for line in result.stdout.splitlines() if line.startswith("# predicted "))
        row, = json.loads(run("plan", "predict", self.deck, *KEYS["relay"], "--cluster", cluster, "--ranks", 2,
                              "--strategy", "sil-relay", "--json", "-").stdout)
        self.assertTrue(math.isclose(float(line.split()[2]), 1e3 * row["step_s"], rel_tol=1e-3), line)

    def test_more_ranks_on_a_node_than_in_the_description(self):
        for on_node, warned in ((1, True), (2, False)):
            cluster = self.write("cluster.toml", CLUSTER + f"[node]\nranks = {on_node}\n")
            result = run("train", self.deck, "strategy/kind=joint", "strategy/replicas=2", "run/steps=2",
                         f"run/cluster={cluster}", ranks=2)
            self.assertEqual(result.returncode, 0, result.stderr)
            warning = "node/ranks: 2 ranks of this run share a node, but the nodes of here have 1"
            self.assertEqual(result.stderr.count(warning), int(warned))

    def test_a_description_is_refined_from_runs(self):
        """The prediction of the same run then agrees in computing, and in waiting where it had waited less."""
        cluster, refined = self.write("cluster.toml", CLUSTER), self.folder / "refined.toml"
        folders = [self.folder / "a", self.folder / "b"]
        for folder in folders:
            self.assertDone(run("train", self.deck, "strategy/kind=joint", "strategy/replicas=2",
                                f"run/cluster={cluster}", "-d", folder, ranks=2))
        for runs, others in ((folders, "2 runs"), (folders[:1], "1 run")):
            result = run("plan", "calibrate", "--from", *runs, "-o", refined)
            self.assertDone(result)
            self.assertRegex(result.stdout, rf"network [0-9]+ parameters, seconds per sample: [^\n]* from {others}\n")
            if any(summary_of(folder)["measured"]["communication"]["gradients"] > 0 for folder in runs):
                self.assertRegex(result.stdout, r"overlap: 1 -> |time of messages, relative: 1 -> ")
        measured = summary_of(folders[0])["measured"]
        row, = json.loads(run("plan", "predict", self.deck, "strategy/kind=joint", "--cluster", refined, "--ranks", 2,
                              "--strategy", "data", "--json", "-").stdout)
        self.assertAlmostEqual(row["epoch_compute_s"] / 15 / measured["compute_s"], 1, delta=0.01)
        if "overlap" in result.stdout:  # how much of it may be hidden was changed too
            waited = measured["communication"]["gradients"]
            self.assertAlmostEqual(row["epoch_communication_s"] / 15 / waited, 1, delta=0.05)
        self.assertIn("refined from runs", refined.read_text())

    def test_refining_needs_runs_that_were_compared(self):
        self.assertDone(run("train", self.deck, "-d", self.folder / "r"))
        self.assertRefused(run("plan", "calibrate", "--from", self.folder / "r"),
                           "has no key `measured`; train with run/cluster=FILE")
        self.assertRefused(run("plan", "calibrate", "--from", self.folder / "none"),
                           "none' is not the directory of a finished run: there is no file", "none/summary.json")
        self.assertRefused(run("plan", "calibrate", self.deck, "--from", self.folder / "r"), "--from")

    def test_refining_needs_a_time_of_computing(self):
        folder, refined = self.folder / "r", self.folder / "refined.toml"
        cluster = self.write("cluster.toml", CLUSTER)
        self.assertDone(run("train", self.deck, "strategy/kind=joint", f"run/cluster={cluster}", "-d", folder))
        summary = summary_of(folder)
        summary["measured"]["compute_s"] = 0
        (folder / "summary.json").write_text(json.dumps(summary))
        self.assertRefused(run("plan", "calibrate", "--from", folder, "-o", refined),
                           "r/summary.json: /measured/compute_s is 0: the run has measured no computing time")
        self.assertFalse(refined.exists())

    def test_the_end_of_frozen_stages_is_no_evidence(self):
        cluster = self.write("cluster.toml", CLUSTER)
        for name, measures in (("frozen", False), ("relay", True)):
            with self.subTest(name):
                keys = (*KEYS[name], f"run/cluster={cluster}", "run/epochs=1", "checkpoint/every=5", "checkpoint/keep=9")
                whole, rest = self.folder / f"{name}-whole", self.folder / f"{name}-rest"
                result = run("train", self.deck, *keys, "-d", whole)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn("measured", summary_of(whole))
                kept = support.checkpoints(whole)
                middle = sorted(kept)[len(kept) // 2]
                self.assertLess(middle, max(kept))  # steps are left
                result = run("train", self.deck, *keys, "-d", rest, "-r", kept[middle])
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual("measured" in summary_of(rest), measures)

    def test_refusals(self):
        for ranks in (1, 2):
            result = run("train", self.deck, "run/cluster=none.toml", ranks=ranks)
            self.assertRefused(result, "none.toml: no such description of a cluster")
        cluster = self.write("cluster.toml", CLUSTER)
        for key in ("recovery_epochs", "joint_every"):
            folder = self.folder / key
            result = run("train", self.deck, "strategy/kind=sil", f"strategy/{key}=1", "run/epochs=1",
                         f"run/cluster={cluster}", "-d", folder)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertNotIn("predicted", summary_of(folder))


if __name__ == "__main__":
    support.main()
