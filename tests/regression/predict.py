"""partita plan predict: the published numbers of ParaDL, tables, JSON, and what it refuses."""

import json
import math
import time

import support
from support import DECKS, run

CLUSTERS = DECKS.parent / "clusters"
ABCI = ("--cluster", CLUSTERS / "abci.toml")
KEYS = ["strategy", "split", "ranks", "stages", "replicas", "parts", "feasible", "reason", "step_s", "epoch_s",
        "epoch_compute_s", "epoch_communication_s", "communication", "memory_bytes", "limiter"]
PAPER = ["serial", "data", "spatial", "filter", "channel", "pipeline", "data+filter", "data+spatial"]
EXACT = ["serial", "data", "spatial", "filter", "channel", "grid", "pipeline", "data+filter", "data+spatial", "data+grid"]


class Predictions(support.RunTest):
    def predict(self, deck, *arguments):
        """The list that --json writes."""
        result = run("plan", "predict", deck, *arguments, "--json", "-")
        self.assertDone(result)
        return json.loads(result.stdout)

    def check_published(self, deck, strategy, ranks, compute, communication):
        found, = self.predict(DECKS / f"{deck}.toml", *ABCI, "--mode", "paper", "--strategy", strategy, "--ranks", ranks)
        self.assertEqual((found["strategy"], found["ranks"]), (strategy, ranks))
        for key, value in (("epoch_compute_s", compute), ("epoch_communication_s", communication)):
            self.assertTrue(math.isclose(found[key], value, rel_tol=1e-9), f"{deck} {found} {value}")
        self.assertAlmostEqual(sum(found["communication"].values()), found["epoch_communication_s"])
        self.assertAlmostEqual(found["epoch_compute_s"] + found["epoch_communication_s"], found["epoch_s"])

    def test_published_numbers(self):
        """Those of the authors' program, from the decks without further options."""
        self.check_published("paradl-resnet-50", "data", 64, 62.39004, 6.07266639504)
        self.check_published("paradl-resnet-50", "data", 1024, 3.8993775, 1.9676128296)
        self.check_published("paradl-resnet-50", "filter", 64, 262.157921995, 18469.0494576)
        self.check_published("paradl-resnet-50", "data+filter", 32, 143.805592571, 527.926502)
        self.check_published("paradl-vgg16", "data", 64, 164.91178, 70.0337169)
        self.check_published("paradl-vgg16", "channel", 4, 2920.48484805, 3253.71168)
        self.check_published("paradl-vgg16", "data+filter", 32, 365.060606007, 4213.0871992)
        steps = 1584 / 4
        self.check_published("paradl-cosmoflow", "data+spatial", 16, steps * 0.554168696865,
                             steps * (.040712688 + .406663308 + .00872299344))

    def test_all_strategies_on_many_ranks(self):
        begin = time.monotonic()
        rows = self.predict(DECKS / "resnet-50.toml", "--ranks", ",".join(str(2**i) for i in range(11)))
        self.assertLess(time.monotonic() - begin, 10)  # with the start of MPI
        self.assertEqual([row["strategy"] for row in rows], 11 * EXACT)
        for row in rows:
            self.assertEqual(list(row), KEYS)
            self.assertEqual(row["feasible"], row["reason"] == "none")
            if row["feasible"]:
                self.assertEqual(row["stages"] * row["replicas"] * row["parts"], row["ranks"])
                self.assertGreater(row["step_s"], 0)
                self.assertGreater(row["memory_bytes"], 0)
                self.assertIn(row["limiter"], ["compute", *row["communication"]])
            else:
                self.assertEqual(row["limiter"], row["reason"])
        reasons = {row["reason"] for row in rows}
        self.assertLessEqual({"more_ranks_than_one", "more_ranks_than_batch", "more_ranks_than_filters",
                              "more_ranks_than_channels", "more_ranks_than_layers"}, reasons)

    def test_memory(self):
        rows = self.predict(DECKS / "paradl-cosmoflow.toml", *ABCI, "--mode", "paper", "--strategy", "data", "--ranks", "4,8")
        self.assertEqual([row["reason"] for row in rows], 2 * ["not_enough_memory"])
        self.assertGreater(rows[0]["memory_bytes"], 16e9)
        self.assertGreater(rows[0]["step_s"], 0)

    def test_table_and_file(self):
        file = self.folder / "predictions.json"
        for ranks in (1, 2):
            result = run("plan", "predict", self.deck, "--ranks", "1,3", "--mode", "paper", "--json", file, ranks=ranks)
            self.assertDone(result)
            self.assertEqual(result.stdout.count("margin: to the best"), 1)
            lines = [line.split()[0] for line in result.stdout.splitlines() if line]
            self.assertEqual(lines[-16:], 2 * PAPER)
            self.assertIn("best", result.stdout)
            self.assertIn("more_ranks_than_one", result.stdout)
            self.assertEqual([row["strategy"] for row in json.loads(file.read_text())], 2 * PAPER)

    def test_deck_and_scaling(self):
        def of(*arguments):
            return self.predict(self.deck, "--strategy", "data", "--ranks", "4", *arguments)[0]
        strong, weak, larger = of(), of("--scaling", "weak"), of("training/batch=160")
        self.assertEqual(weak, larger)
        self.assertGreater(weak["step_s"], strong["step_s"])
        self.assertEqual(of("--mode", "paper"), of("--mode", "paper", "--scaling", "weak"))

    def test_measured_messages(self):
        cluster = self.write("cluster.toml", """
[cluster]
name = "two ranks"
source = "measured"
[[message]]
bytes = 100
seconds = 1e-6
[[message]]
bytes = 10_000_000
seconds = 1e-1
""")
        row, = self.predict(self.deck, "--cluster", cluster, "--strategy", "data", "--ranks", 2)
        message = row["epoch_communication_s"] / 15 / 2  # steps, messages
        self.assertGreater(message, 1e-6)
        self.assertLess(message, 1e-1)


class Refusals(support.RunTest):
    def refused(self, *arguments, parts, ranks=1):
        self.assertRefused(run("plan", "predict", *arguments, ranks=ranks), *parts)

    def test_command(self):
        for ranks in (1, 2):
            self.assertRefused(run("plan", ranks=ranks), "a command is required after plan: "
                               "calibrate, predict, schedule, place or search")
        self.refused(parts=["DECK is required"])
        self.refused(self.deck, "--bogus", parts=["unknown argument '--bogus'", "partita plan predict --help"])
        self.assertDone(run("plan", "--help"))
        self.assertIn("Usage: partita plan predict DECK", run("plan", "predict", "--help").stdout)

    def test_options(self):
        for text in ("0", "1,,2", "x", "1,-2", "99999999999"):
            self.refused(self.deck, "--ranks", text, parts=["--ranks", f"'{text}' is not a list of numbers of ranks"])
        self.refused(self.deck, "--strategy", "filtre", parts=["'filtre' is not a strategy; did you mean 'filter'?"])
        self.refused(self.deck, "--mode", "papers", parts=["--mode", "not in {exact,paper}"])
        self.refused(self.deck, "--scaling", "small", parts=["--scaling", "not in {strong,weak}"])
        self.refused(self.deck, "--strategy", "grid", "--mode", "paper", parts=["'grid' needs --mode exact"], ranks=2)
        self.refused(self.deck, "--json", self.deck, parts=["is also an input"])
        self.refused(self.deck, "--json", "/dev/null/nowhere/x", parts=["/dev/null/nowhere"])
        self.refused(self.folder / "none.toml", parts=["none.toml: no such deck"])

    def test_clusters(self):
        self.refused(self.deck, "--cluster", self.folder / "none.toml", parts=["no such description of a cluster"], ranks=2)
        self.refused(self.deck, "--cluster", self.folder, parts=["is a folder, not a description of a cluster"])
        for text, *parts in (("[nodes]\n", ":1:2: nodes: unknown section; did you mean 'node'?"),
                             ("[node]\nrank = 4\n", ":2:1: node/rank: unknown key; did you mean 'ranks'?"),
                             ("[node]\nranks = 0\n", ":2:9: node/ranks", "out of range"),
                             ("[compute]\nflops = 'many'\n", ":2:9: compute/flops: expected a real number"),
                             ("[[link]]\nranks = 4\n", ":1:1: link[0]: `bandwidth` is missing; this row requires it"),
                             ("[link]\nranks = 4\n", ":1:2: link: expected the section [[link]], found a table"),
                             ("node = 4\n", ": node: expected a section, found the integer 4"),
                             ("[[message]]\nbytes = 4\nseconds = 0\n", "message[0]/seconds", "out of range"),
                             ("[node\n", "not TOML")):
            with self.subTest(text):
                path = self.write("cluster.toml", text)
                self.refused(self.deck, "--cluster", path, parts=[path, *parts])


if __name__ == "__main__":
    support.main()
