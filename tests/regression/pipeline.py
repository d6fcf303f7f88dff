"""strategy/kind = "pipeline" as a person runs it: the network of one rank on several, its trace, its messages."""

import json
import re
import unittest

import support
from support import history, run, train

STEPS = ["run/steps=20", "run/evaluate_every=1", "optimiser/clip_norm=0.5"]


class Pipeline(support.RunTest):
    def hash_of(self, name, *overrides, ranks=1):
        return train(self.folder / name, self.deck, *STEPS, *overrides, ranks=ranks)

    def test_the_same_network_as_on_one_rank(self):
        for count in (1, 4):
            parts = f"strategy/microbatches={count}"
            joint = self.hash_of(f"joint-{count}", "strategy/kind=joint", parts)
            for ranks, stages in ((1, 2), (2, 2), (2, 3), (4, 4)):
                for schedule in ("message-driven", "1f1b", "gpipe"):
                    found = self.hash_of(f"{count}-{ranks}-{stages}-{schedule}", "strategy/kind=pipeline",
                                         f"strategy/stages={stages}", "strategy/cuts=flops", parts,
                                         f"strategy/schedule={schedule}", ranks=ranks)
                    with self.subTest(count=count, ranks=ranks, stages=stages, schedule=schedule):
                        self.assertEqual(found["parameters_hash"], joint["parameters_hash"])
                        self.assertEqual(found["test_accuracy"], joint["test_accuracy"])
                        self.assertEqual(found["strategy"], "pipeline")
                        self.assertEqual(found["grid"], {"stages": stages, "replicas": 1, "ranks": ranks})
                        self.assertEqual(len(found["stage_accuracy"]), 1)
                        self.assertEqual(found["warnings"], [])
                        self.assertEqual(found["bytes_between_stages"] > 0, ranks > 1)

    def test_history_is_of_the_joined_network(self):
        self.hash_of("joint", "strategy/kind=joint", "run/log_every=5")
        self.hash_of("pipeline", "strategy/kind=pipeline", "run/log_every=5", ranks=2)
        joint, pipeline = history(self.folder / "joint"), history(self.folder / "pipeline")
        self.assertEqual({row[1] for row in pipeline}, {"joined"})
        self.assertEqual([row[:1] + row[2:] for row in pipeline if row[0] == "step"],
                         [row[:1] + row[2:] for row in joint if row[0] == "step"])
        self.assertEqual([row for row in pipeline if row[0] == "evaluation"],
                         [row for row in joint if row[0] == "evaluation"])

    def test_evaluates_again(self):
        summary = self.hash_of("run", "strategy/kind=pipeline", "strategy/microbatches=3", ranks=2)
        for ranks in (1, 2, 4):
            result = run("evaluate", self.folder / "run", ranks=ranks)
            self.assertDone(result)
            self.assertIn(f"joined network   {100 * summary['test_accuracy']:6.2f} %", result.stdout)
            self.assertIn(summary["parameters_hash"], result.stdout)

    def test_trace(self):
        train(self.folder / "run", self.deck, "strategy/kind=pipeline", "run/steps=10", "run/trace=2",
              "strategy/microbatches=4", ranks=2)
        events = json.loads((self.folder / "run" / "trace.json").read_text())["traceEvents"]
        names = sorted(event["name"] for event in events if event["tid"] == 0 and event["cat"] in "FB")
        self.assertEqual(names, sorted(2 * [f"{kind}{number}" for kind in "FB" for number in range(4)]))
        self.assertEqual({event["tid"] for event in events}, {0, 1})
        for number in range(4):  # a microbatch comes to the second rank after the first one has begun it
            first, second = ([event["ts"] for event in events if event["name"] == f"F{number}" and event["tid"] == tid]
                             for tid in (0, 1))
            self.assertTrue(all(a < b for a, b in zip(first, second)), (first, second))

    def test_each_part_has_a_row_in_the_trace(self):
        train(self.folder / "run", self.deck, "strategy/kind=pipeline", "run/steps=2", "run/trace=2", "strategy/stages=2",
              "strategy/parts=2", "strategy/split=filter", "strategy/schedule=1f1b", ranks=4)
        events = json.loads((self.folder / "run" / "trace.json").read_text())["traceEvents"]
        self.assertEqual({event["tid"] for event in events}, {0, 1, 2, 3})
        for tid in range(4):  # one operation at a time
            times = sorted((event["ts"], event["ts"] + event["dur"]) for event in events if event["tid"] == tid)
            for (_, end), (begin, _) in zip(times, times[1:]):
                self.assertLess(end, begin + 0.002)

    def test_no_trace_without_a_schedule(self):
        """Stages with labels have microbatches only in a recovery."""
        for epochs in (0, 1):
            folder = self.folder / f"recovery-{epochs}"
            result = run("train", self.deck, "strategy/kind=sil", "run/steps=2", "run/trace=2",
                         f"strategy/recovery_epochs={epochs}", "-d", folder, ranks=2)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual("run/trace has no effect" in result.stderr, epochs == 0, result.stderr)
            self.assertEqual((folder / "trace.json").exists(), epochs > 0)

    def test_a_trace_needs_a_directory(self):
        words = [self.deck, "strategy/kind=pipeline", "run/trace=2"]
        self.assertRefused(run("train", *words, ranks=2), "run/trace: trace.json needs a run directory (-d)")
        self.assertDone(run("train", *words, "-n", "--ranks", 2))

    def test_the_plan_is_printed(self):
        result = run("train", self.deck, "strategy/kind=pipeline", "strategy/stages=4", "strategy/cuts=flops",
                     "strategy/microbatches=8", "-n", "--ranks", 4)
        self.assertDone(result)
        self.assertIn("# 8 microbatches of at most 5 samples, message-driven; activations kept by rank: 8 8 8 1",
                      result.stdout)
        self.assertIn("a speed-up of 2.74 over one rank; the slowest rank is busy 98 % of the time", result.stdout)

    def test_the_speedup_is_that_of_a_replica(self):
        """The summary has the number of the plan; copies of the pipeline, and parts of its stages, do not change it."""
        deck = [self.deck, "strategy/kind=pipeline", "strategy/stages=2", "strategy/microbatches=2", "training/batch=32",
                "strategy/schedule=1f1b", 'network/layers=[{ type = "dense", units = 144, repeat = 5 }, { type = "dense" }]']
        said = {}
        for replicas, parts in ((1, 1), (2, 1), (1, 2), (2, 2)):
            result = run("train", *deck, f"strategy/replicas={replicas}", f"strategy/parts={parts}", "-n", "--ranks",
                         2 * replicas * parts)
            self.assertDone(result)
            said[replicas, parts] = re.search("# the cuts allow (.*)a speed-up of ([0-9.]+) over (.*);", result.stdout).groups()
        number = said[1, 1][1]
        several = "2 ranks that share all layers"
        self.assertEqual(said, {(1, 1): ("", number, "one rank"), (2, 1): ("each replica ", number, "one rank"),
                                (1, 2): ("", number, several), (2, 2): ("each replica ", number, several)})
        summary = train(self.folder / "run", *deck, "run/steps=2", ranks=2)
        self.assertEqual(f"{summary['allowed_speedup']:.2f}", number)
        self.assertLess(float(number), 1.5)  # two microbatches: a third of the time is the bubble

    def test_slow_links_change_nothing(self):
        expected = self.hash_of("quick", "strategy/kind=pipeline", "strategy/microbatches=3", ranks=2)
        overrides = ["strategy/kind=pipeline", "strategy/microbatches=3", *STEPS]
        result = support.run("train", self.deck, *overrides, "-d", self.folder / "slow", ranks=2,
                             environment={"PARTITA_LINKS": "latency=2e-3,bandwidth=1e7,delay=1e-3"})
        self.assertDone(result)
        self.assertEqual(support.summary_of(self.folder / "slow")["parameters_hash"], expected["parameters_hash"])
        for ranks in (1, 2):
            result = support.run("train", self.deck, *overrides, ranks=ranks, environment={"PARTITA_LINKS": "speed=1"})
            self.assertRefused(result, "partita: PARTITA_LINKS: 'speed=1' is not one of")

    def test_waiting_for_other_ranks_is_a_phase(self):
        """The rows add up to the time of the training, most of which is waiting here: 0.05 s per message and cut."""
        result = support.run("train", self.deck, "strategy/kind=pipeline", "strategy/microbatches=2", "run/timing=true",
                             "run/steps=12", "-d", self.folder / "timed", ranks=2,
                             environment={"PARTITA_LINKS": "latency=5e-2,bandwidth=1e9"})
        self.assertDone(result)
        times, measured = support.phases(result), support.summary_of(self.folder / "timed")["train_seconds"]
        self.assertGreater(times["waiting"], 12 * 0.06)
        training = sum(times.values()) - times["evaluation"]
        self.assertGreater(training, 0.7 * measured)
        self.assertLess(training, 1.05 * measured + 0.1)

    def test_mistakes(self):
        seven = ["strategy/kind=pipeline", "strategy/stages=7", "strategy/cuts=flops"]
        self.assertRefused(run("train", self.deck, *seven), "strategy/stages", "7 stages need at least as many layers")
        self.assertRefused(run("train", self.deck, "strategy/schedule=1f2b"), "strategy/schedule",
                           "did you mean '1f1b'?")
        self.assertRefused(run("train", self.deck, "strategy/microbatches=0"), "strategy/microbatches", "out of range")


if __name__ == "__main__":
    unittest.TestCase.maxDiff = None
    support.main()
