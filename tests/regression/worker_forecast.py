"""strategy/kind hogbatch: what plan predict says of its workers, what plan calibrate measures, and how runs compare."""

import json
import re

import support
from support import run, summary_of

HOGBATCH = ("strategy/kind=hogbatch", "optimiser/kind=sgd", "optimiser/momentum=0", "optimiser/learning_rate=0.01",
            "training/batch=64", "strategy/shared_workers=0")
LINK = "[[link]]\nlatency = 1e-9\nbandwidth = 1e12\n"
WORKER = "[[worker]]\ndeck = \"small\"\nrank = {}\noverhead = 1e-5\nsamples_per_second = {}\n"
ROW = re.compile(r'\[\[worker\]\]\ndeck = "(\w+)"\nrank = (\d+)\noverhead = (\S+)\nsamples_per_second = (\S+)')


class WorkerForecasts(support.RunTest):
    def cluster(self, *speeds):
        rows = "".join(WORKER.format(rank + 1, speed) for rank, speed in enumerate(speeds))
        return self.write("cluster.toml", LINK + rows)

    def predict(self, *arguments):
        result = run("plan", "predict", self.deck, *HOGBATCH, *arguments, "--json", "-")
        self.assertDone(result)
        return json.loads(result.stdout)

    def shares(self, *arguments):
        found, = self.predict("--ranks", 3, "data/samples=60000", *arguments)
        return [worker["update_share"] for worker in found["workers"]]

    def test_shares_follow_the_formula(self):
        for ratio, share in ((1, 0.5), (8, 0.5), (64, 1 / 3)):
            with self.subTest(ratio=ratio):
                cluster = self.cluster(1000, 1000 * ratio)
                # In the first batches the rule finds out how unequal the workers are.
                self.assertAlmostEqual(self.shares("--cluster", cluster)[0], share, delta=0.03)
                fixed = self.shares("--cluster", cluster, "strategy/rule=fixed")
                self.assertAlmostEqual(fixed[0], 1 / (1 + ratio), delta=0.02)
        slowed = self.shares("--cluster", self.cluster(8000, 8000), "strategy/rule=fixed", "strategy/slowdown=[3]")
        self.assertAlmostEqual(slowed[0], 0.25, delta=0.02)

    def test_each_number_of_ranks(self):
        cluster = self.cluster(1000, 4000, 2000)
        rows = self.predict("--ranks", "1,2,3,4,5", "--cluster", cluster)
        self.assertEqual([row["ranks"] for row in rows], [2, 3, 4, 5])  # one rank has no worker
        self.assertEqual([row["timed"] for row in rows], [True, True, True, False])
        for row in rows:
            self.assertEqual(row["strategy"], "hogbatch")
            self.assertEqual(row["mode"], "exact")
            self.assertTrue(row["cluster"])
            self.assertEqual([worker["rank"] for worker in row["workers"]], list(range(1, row["ranks"])))
            self.assertAlmostEqual(sum(worker["example_share"] for worker in row["workers"]), 1)
            self.assertAlmostEqual(row["epoch_s"] * row["examples_per_second"], 600, delta=1)
            self.assertEqual(row["ways"].keys(), {"asynchronous", "synchronous", "alone"})
            self.assertIn(row["better"], row["ways"])
            self.assertGreaterEqual(row["gain"], 1)

    def test_synchronous(self):
        """It has no bounds of batches, so those of the other rules need not fit."""
        for batch in (8, 64, 600):
            with self.subTest(batch=batch):
                found, = self.predict("--ranks", 3, "--cluster", self.cluster(1000, 4000), "strategy/rule=synchronous",
                                      f"training/batch={batch}")
                self.assertEqual(found["price_of_balance"], 1)
                self.assertEqual(found["staleness_max"], 0)
                self.assertGreater(found["ways"]["asynchronous"]["progress"], 0)
        told = run("plan", "predict", self.deck, *HOGBATCH, "--ranks", 3, "strategy/rule=synchronous")
        self.assertNotIn("as with the first batches", told.stdout)
        self.assertRefused(run("plan", "predict", self.deck, *HOGBATCH, "--ranks", 4, "strategy/rule=synchronous",
                               "training/batch=2"), "leaves some of the 3 replicas or workers without work")

    def test_the_table(self):
        result = run("plan", "predict", self.deck, *HOGBATCH, "--ranks", 3, "--cluster", self.cluster(1000, 100000),
                     "strategy/rule=fixed", "data/samples=60000")
        self.assertDone(result)
        self.assertRegex(result.stdout, r"rank 1, replica +64 +0\.0")
        self.assertRegex(result.stdout, r"this run: predicted [0-9.e+]+ examples/s, [0-9.e+-]+ s per epoch, staleness [0-9.]+")
        self.assertIn("rank 2, replica alone, batches of 64", result.stdout)
        self.assertNotIn("assumed equal", result.stdout)
        self.assertIn("assumed equal", run("plan", "predict", self.deck, *HOGBATCH, "--ranks", 3).stdout)
        table = run("plan", "predict", self.deck, *HOGBATCH, "--ranks", 2, "--strategy", "data")
        self.assertDone(table)
        self.assertIn("data ", table.stdout)

    def test_the_advice(self):
        """Every way has its best batches, whatever the rule of the deck, and the changes give what they say."""
        cluster = self.write("cluster.toml", LINK + "".join(
            WORKER.format(rank, 10000).replace("1e-5", "0.01") for rank in (1, 2)))
        task = ("--ranks", 3, "--cluster", cluster, "data/samples=20000")
        for rule in ("adaptive", "fixed", "synchronous"):
            with self.subTest(rule=rule):
                found, = self.predict(*task, f"strategy/rule={rule}", "strategy/rate_cap=8")
                self.assertEqual(found["better"], "asynchronous")
                ways = found["ways"]
                self.assertEqual(ways["asynchronous"]["batches"], [512, 512])
                self.assertEqual(ways["asynchronous"]["rate_change"], 8)
                self.assertGreater(ways["asynchronous"]["progress"], 1.1 * ways["synchronous"]["progress"])
                for way in (ways["asynchronous"], ways["synchronous"]):
                    self.assertIn("strategy/rate_cap=1", " ".join(way["changes"]))
                    changed, = self.predict(*task, f"strategy/rule={rule}", *way["changes"])
                    self.assertAlmostEqual(changed["examples_per_second"] / way["examples_per_second"], 1, delta=0.02)
        told = run("plan", "predict", self.deck, *HOGBATCH, *task, "strategy/rate_cap=8").stdout
        self.assertRegex(told, "better than this run by 1[01][0-9] %: asynchronous, batches of 512, 512")
        self.assertIn("with strategy/rule=fixed training/batch=512 strategy/rate_cap=1, "
                      "optimiser/learning_rate times 8\n", told)

    def test_options_of_other_strategies(self):
        for option in (("--stages", 2), ("--parts", 2), ("--scaling", "weak")):
            asked = ["plan", "predict", self.deck, *HOGBATCH, "--ranks", 4, *option]
            self.assertRefused(run(*asked), "--stages, --parts and --scaling do not apply to workers of 'hogbatch'")
            self.assertDone(run(*asked, "--strategy", "data"))

    def test_too_few_ranks(self):
        result = run("plan", "predict", self.deck, *HOGBATCH, "--ranks", 1)
        self.assertRefused(result, "needs at least 2 ranks")
        result = run("plan", "predict", self.deck, *HOGBATCH, "--ranks", "2,3", "strategy/slowdown=[1, 2, 3]")
        self.assertRefused(result, "strategy/slowdown")

    def test_a_run_compares(self):
        cluster = self.cluster(20000, 20000)
        cluster.write_text(cluster.read_text() + "[[network]]\ndeck = \"small\"\nparameters = 9194\n")
        keys = (*HOGBATCH, f"run/cluster={cluster}")
        dry = run("train", self.deck, *keys, "-n", "--ranks", 3)
        self.assertDone(dry)
        self.assertRegex(dry.stdout, r"# this run: predicted 3\.7\d+e\+04 examples/s")
        self.assertNotIn("assumed equal", dry.stdout)
        folder = self.folder / "run"
        result = run("train", self.deck, *keys, "-d", folder, ranks=3)
        self.assertDone(result)
        self.assertRegex(result.stdout, r"predicted [0-9.e+]+ examples/s, measured [0-9.e+]+ \([+-][0-9.]+ %\): shares of "
                                        r"updates [0-9., ]+ and [0-9., ]+, staleness")
        summary = summary_of(folder)
        predicted, measured, error = (summary[key] for key in ("predicted", "measured", "prediction_error"))
        self.assertEqual(predicted.keys(), {"epoch_s", "examples_per_second", "update_share", "staleness_mean"})
        self.assertEqual(measured.keys(), predicted.keys())
        self.assertAlmostEqual(sum(measured["update_share"]), 1)
        self.assertAlmostEqual(error["update_share"][0], predicted["update_share"][0] - measured["update_share"][0])
        self.assertAlmostEqual(error["epoch_s"], predicted["epoch_s"] / measured["epoch_s"] - 1)

    def test_calibration(self):
        file = self.folder / "measured.toml"
        deck = self.write("small.toml", re.sub(r"(?s)\[strategy\].*", "[optimiser]\nkind = \"sgd\"\nmomentum = 0.0\n[strategy]\n"
                                               "kind = \"hogbatch\"\nshared_workers = 0\n", support.SMALL_DECK))
        self.assertDone(run("plan", "calibrate", deck, "--quick", "--noise", "1e6", "-o", file, ranks=3))
        rows = ROW.findall(file.read_text())
        self.assertEqual([row[:2] for row in rows], [("small", "1"), ("small", "2")])
        for _, _, overhead, speed in rows:
            self.assertGreaterEqual(float(overhead), 0)
            self.assertGreater(float(speed), 100)
        result = run("plan", "predict", deck, "--ranks", 3, "--cluster", file, "--json", "-")
        self.assertDone(result)
        found, = json.loads(result.stdout)
        self.assertTrue(found["timed"])
        self.assertAlmostEqual(found["workers"][1]["solo_examples_per_second"] / float(rows[1][3]), 1, places=4)


if __name__ == "__main__":
    support.main()
