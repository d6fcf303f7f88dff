"""partita plan predict: the published numbers of ParaDL, tables, JSON, and what it refuses."""

import json
import math
import re

import support
from support import DECKS, run

CLUSTERS = DECKS.parent / "clusters"
ABCI = ("--cluster", CLUSTERS / "abci.toml")
KEYS = ["strategy", "split", "ranks", "stages", "replicas", "parts", "microbatches", "batch", "feasible", "reason",
        "detail", "step_s", "epoch_s", "epoch_compute_s", "epoch_forward_s", "epoch_backward_s", "epoch_update_s",
        "epoch_communication_s", "communication", "hidden", "step_messages", "step_bytes", "memory_bytes",
        "node_hours", "limiter", "mode", "cluster"]
PAPER = ["serial", "data", "spatial", "filter", "channel", "pipeline", "data+filter", "data+spatial"]
EXACT = ["serial", "data", "spatial", "filter", "channel", "grid", "pipeline", "data+filter", "data+spatial", "data+grid",
         "pipeline-message-driven", "pipeline-1f1b", "pipeline-1f1b-eager", "pipeline-gpipe",
         "sil-free", "sil-frozen", "sil-relay", "local-sgd"]


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
        begin = support.cpu_seconds()
        rows = self.predict(DECKS / "resnet-50.toml", "--ranks", ",".join(str(2**i) for i in range(11)))
        self.assertLess(support.cpu_seconds() - begin, support.slowed(10))  # with the start of MPI
        self.assertEqual([row["strategy"] for row in rows], 11 * EXACT)
        for row in rows:
            self.assertEqual(list(row), KEYS)
            self.assertEqual(row["feasible"], row["reason"] == "none")
            if row["feasible"]:
                self.assertEqual(row["stages"] * row["replicas"] * row["parts"], row["ranks"])
                self.assertGreater(row["step_s"], 0)
                self.assertGreater(row["memory_bytes"], 0)
                self.assertIn(row["limiter"], ["compute", *row["communication"]])
                self.check_terms(row)
            else:
                self.assertEqual(row["limiter"], row["reason"])
        reasons = {row["reason"] for row in rows}
        self.assertLessEqual({"more_ranks_than_one", "more_ranks_than_batch", "more_ranks_than_filters",
                              "more_ranks_than_channels", "more_ranks_than_layers"}, reasons)

    def check_terms(self, row):
        """The rest of the computing time is that in which stages wait for others."""
        busy = row["epoch_forward_s"] + row["epoch_backward_s"] + row["epoch_update_s"]
        self.assertLessEqual(busy, row["epoch_compute_s"] * (1 + 1e-9))
        if row["stages"] == 1:
            self.assertAlmostEqual(busy / row["epoch_compute_s"], 1, places=9)
        self.assertGreater(min(row["epoch_forward_s"], row["epoch_backward_s"]), 0)
        for key in ("hidden", "step_messages", "step_bytes"):
            self.assertEqual(list(row[key]), list(row["communication"]))
        for kind, count in row["step_messages"].items():
            self.assertGreater(count, 0)
            self.assertGreater(row["step_bytes"][kind], 0)

    def test_traffic_and_hours(self):
        deck = (self.deck, support.IMAGES, "strategy/kind=joint", "strategy/cuts=flops", "strategy/replicas=0",
                "strategy/parts=2", "strategy/split=filter")
        parts, replicas = self.predict(*deck, "--strategy", "filter,data", "--ranks", 2)
        result = run("train", *deck, "-n", "--ranks", 2)
        self.assertDone(result)
        planned = re.search(r"# parts exchange (\d+) bytes in (\d+) messages per step", result.stdout)
        for key, both in (("step_bytes", planned[1]), ("step_messages", planned[2])):
            self.assertEqual(2 * sum(parts[key].values()), int(both))  # both parts send the same
        self.assertEqual(list(replicas["step_bytes"]), ["gradients", "norm"])
        cluster = self.write("nodes.toml", "[node]\nranks = 2\n")
        for ranks, nodes in ((1, 1), (2, 1), (4, 2)):
            for length, steps in (("run/epochs=3", 3 * 15), ("run/steps=7", 7)):
                row, = self.predict(self.deck, length, "--cluster", cluster, "--strategy", "data", "--ranks", ranks)
                self.assertAlmostEqual(row["node_hours"] / (nodes * steps * row["step_s"] / 3600), 1, places=9)

    def test_strategies_of_this_program(self):
        """Memory is what a dry run prints, and heads are counted."""
        deck = DECKS / "resnet-emnist.toml"
        data = ("data/kind=glyphs", "data/samples=500", "data/test_samples=50")
        plans = {"sil-relay": ("strategy/kind=sil",),
                 "pipeline-1f1b": ("strategy/kind=pipeline", "strategy/schedule=1f1b"),
                 "local-sgd": ("strategy/kind=local-sgd",), "data": ("strategy/kind=joint",)}
        for name, changes in plans.items():
            with self.subTest(name):
                microbatches = 4 if name.startswith("pipeline") else 1
                both = (*data, *changes, "strategy/stages=2", "strategy/cuts=flops",
                        f"strategy/microbatches={microbatches}")
                row, = self.predict(deck, *both, "--strategy", name, "--ranks", 2)
                result = run("train", deck, *both, "strategy/replicas=0", "-n", "--ranks", 2)
                self.assertDone(result)
                ranks = [line.split() for line in result.stdout.splitlines() if re.match(r"# +\d+ +\d+ +\d+-\d+ ", line)]
                most = max(sum(float(number) * {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}[unit]
                               for number, unit in zip(words[-10::2], words[-9::2])) for words in ranks)
                self.assertAlmostEqual(row["memory_bytes"] / most, 1, delta=0.02)
        free, frozen, relay = self.predict(deck, *data, "--strategy", "sil-free,sil-frozen,sil-relay", "--ranks", 2)
        self.assertLess(free["epoch_s"], frozen["epoch_s"])
        self.assertLess(relay["epoch_s"], frozen["epoch_s"])
        self.assertEqual((list(free["communication"]), list(relay["communication"])), ([], ["stage"]))
        cut = (*data, "strategy/kind=sil", "strategy/cuts=[4]", "--strategy", "sil-relay", "--ranks", 2)
        depths = [self.predict(deck, f"strategy/head_depth={depth}", *cut)[0]["epoch_compute_s"] for depth in (0, 2)]
        self.assertLess(depths[0], depths[1])

    def test_strategies_with_parts(self):
        """Time, traffic and memory of the plan that train runs; also three-dimensional ones."""
        cluster = self.write("cluster.toml", "[compute]\nflops = 1e9\nhalf_size = 0\n")
        convolutions = ("strategy/cuts=flops", support.IMAGES)
        joint, pipeline = ("strategy/kind=joint",), ("strategy/kind=pipeline", "strategy/schedule=1f1b", "strategy/microbatches=2")
        for name, ranks, options, changes in (
                ("serial", 1, (), (*joint, "strategy/microbatches=4")),
                ("data", 2, (), (*joint, "strategy/microbatches=4", "checkpoint/every=2")),
                ("local-sgd", 2, (), ("strategy/kind=local-sgd", "strategy/microbatches=4")),
                ("filter", 2, (), (*joint, "strategy/parts=2", "strategy/split=filter")),
                ("channel", 2, (), (*joint, "strategy/parts=2", "strategy/split=channel")),
                ("grid", 4, (), (*joint, "strategy/parts=4")),
                ("spatial", 2, (), (*joint, "strategy/parts=2", "strategy/split=spatial")),
                ("data+grid", 4, ("--parts", 2), (*joint, "strategy/parts=2")),
                ("data+spatial", 4, ("--parts", 2), (*joint, "strategy/parts=2", "strategy/split=spatial")),
                ("pipeline-1f1b", 4, ("--parts", 2, "--stages", 2), (*pipeline, "strategy/stages=2", "strategy/parts=2")),
                ("sil-relay", 4, ("--parts", 2, "--stages", 2), ("strategy/kind=sil", "strategy/stages=2", "strategy/parts=2")),
                ("pipeline-1f1b", 8, ("--parts", 2, "--stages", 2), (*pipeline, "strategy/stages=2", "strategy/parts=2"))):
            with self.subTest(name, ranks=ranks):
                both = (self.deck, *convolutions, *changes, "strategy/replicas=0")
                row, = self.predict(*both, *options, "--cluster", cluster, "--strategy", name, "--ranks", ranks)
                self.assertEqual((row["reason"], row["detail"]), ("none", ""))
                self.assertEqual(row["stages"] * row["replicas"] * row["parts"], ranks)
                self.assertEqual(row["split"] == "none", row["parts"] == 1)
                result = run("train", *both, f"run/cluster={cluster}", "-n", "--ranks", ranks)
                self.assertDone(result)
                words = re.search(r"# predicted ([0-9.e+-]+) ms per step: .* memory ([0-9.]+) (\w+)", result.stdout)
                self.assertTrue(math.isclose(float(words[1]), 1e3 * row["step_s"], rel_tol=1e-3), (row, words[0]))
                memory = float(words[2]) * {"B": 1, "kB": 1e3, "MB": 1e6}[words[3]]
                self.assertAlmostEqual(row["memory_bytes"] / memory, 1, delta=0.01)

    def test_shipped_clusters(self):
        steps = {}
        for name in ("dgx-a100", "dgx-h100"):
            rows = self.predict(DECKS / "resnet-50.toml", "training/batch=256", "data/samples=256", "--cluster",
                                CLUSTERS / f"{name}.toml", "--strategy", "data,grid,data+grid", "--ranks", "8,64")
            self.assertEqual([row["reason"] for row in rows], 6 * ["none"])
            steps[name] = [row["step_s"] for row in rows]
        for a100, h100 in zip(*steps.values()):
            self.assertLess(h100, a100)

    def test_gaps_of_a_cluster_file_are_announced(self):
        node = "[node]\nranks = 2\n[[link]]\nranks = 2\nlatency = 1e-6\nbandwidth = 1e10\n"
        one = self.write("one.toml", node)
        two = self.write("two.toml", node + "[[link]]\nlatency = 1e-5\nbandwidth = 1e9\n")
        rate = self.write("rate.toml", "[compute]\nflops = 1e11\nbf16_flops = 4e11\n")
        several = "ranks need several nodes of 2 ranks, but one has messages of one node only"
        as_float = "products in bf16 are predicted to be as fast as in float"
        for cluster, ranks, overrides, said in ((one, 2, (), ()), (one, "2,4", (), (several,)), (two, 4, (), ()),
                                                (two, 4, ("run/precision=bf16",), (as_float,)),
                                                (rate, 4, ("run/precision=bf16",), ())):
            with self.subTest(cluster=cluster.name, ranks=ranks):
                result = run("plan", "predict", self.deck, *overrides, "--cluster", cluster, "--ranks", ranks)
                self.assertEqual(result.returncode, 0, result.stderr)
                for text in (several, as_float):
                    self.assertEqual(text in result.stderr, text in said)
                self.assertEqual(result.stderr.count("warning: "), len(said))

    def test_parts_of_the_deck_do_not_count(self):
        of = [self.predict(self.deck, "strategy/kind=joint", f"strategy/parts={parts}", "--strategy",
                           "data,pipeline-1f1b,local-sgd", "--ranks", 2) for parts in (1, 2)]
        self.assertEqual(of[0], of[1])

    def test_stages_and_replicas(self):
        rows = self.predict(DECKS / "demo.toml", "strategy/bucket_kib=64", "--strategy", "pipeline-1f1b,sil-relay",
                            "--ranks", "2,3,4", "--stages", 2)
        self.assertEqual([(row["stages"], row["replicas"], row["reason"]) for row in rows],
                         [*2 * [(2, 1, "none")], *2 * [(2, 1, "stages_do_not_divide_ranks")],
                          *2 * [(2, 2, "none")]])
        self.assertGreater(rows[5]["hidden"]["gradients"], 0)
        rows = self.predict(DECKS / "demo.toml", "--strategy", "pipeline-1f1b", "--ranks", 4, "--parts", 3)
        self.assertEqual([row["reason"] for row in rows], ["parts_do_not_divide_ranks"])
        layers = "network/layers=[{type='dense',units=8},{type='batch-norm',replicas=true},{type='dense'}]"
        (refused,) = self.predict(self.deck, "strategy/cuts=flops", layers, "--strategy", "local-sgd", "--ranks", 2)
        self.assertEqual(refused["reason"], "refused_by_train")
        self.assertIn("needs all replicas in every step", refused["detail"])

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
            self.assertEqual(result.stdout.count("margin: over the best"), 1)
            table = result.stdout.split("largest part; communication per step\n")[1].split("\n\n")
            shown = [line.split()[0] for line in table[0].splitlines()]
            left_out = re.match(r"(\d+) rows left out, with the same grid and numbers as another strategy", table[1])
            self.assertEqual(shown[0], "serial")
            self.assertGreaterEqual(int(left_out[1]), 6)  # on one rank nearly all are the same
            self.assertEqual(len(shown) + int(left_out[1]), 2 * len(PAPER))
            self.assertIn("best", result.stdout)
            self.assertIn("more_ranks_than_one", result.stdout)
            self.assertEqual([row["strategy"] for row in json.loads(file.read_text())], 2 * PAPER)

    def test_numbers_of_ranks_appear_once(self):
        rows = self.predict(self.deck, "--strategy", "data", "--ranks", "2,1,2")
        self.assertEqual([row["ranks"] for row in rows], [2, 1])

    def test_deck_and_scaling(self):
        def of(*arguments):
            return self.predict(self.deck, "--strategy", "data", "--ranks", "4", *arguments)[0]
        strong, weak, larger = of(), of("--scaling", "weak"), of("training/batch=160")
        self.assertEqual(weak, larger)
        self.assertGreater(weak["step_s"], strong["step_s"])
        self.assertEqual(of("--mode", "paper"), of("--mode", "paper", "--scaling", "weak"))

    def test_a_batch_larger_than_the_training_set(self):
        """The warning is about the batch of all replicas; there is none in paper mode, which counts every sample."""
        for arguments, batch in (((), None), (("training/batch=601",), 601), (("--scaling", "weak"), 640),
                                 (("--mode", "paper"), None)):
            with self.subTest(arguments):
                result = run("plan", "predict", self.deck, "--strategy", "data", "--ranks", "2,16", *arguments)
                self.assertEqual(result.returncode, 0, result.stderr)
                warnings = [] if batch is None else [
                    f"warning: training/batch: a batch of {batch} samples is larger than the training set of 600: "
                    "train would refuse it; here it counts as an epoch"]
                self.assertEqual(support.complaints(result), warnings)

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


class Decks(support.RunTest):
    def choose(self, deck, *arguments):
        """The JSON, and the deck that was written."""
        best = self.folder / "best.toml"
        result = run("plan", "deck", deck, "-o", best, "--json", "-", *arguments)
        self.assertDone(result)
        return json.loads(result.stdout), best

    def cluster(self, latency, memory=0):
        return self.write("cluster.toml", f"[node]\nmemory = {memory}\n[[link]]\nlatency = {latency}\nbandwidth = 1e12\n")

    def test_the_deck_runs_unchanged_and_none_is_clearly_faster(self):
        """Fast links favour replicas, slow ones stages that exchange little."""
        for latency, local, wanted in ((1e-9, False, {"data"}), (1e-9, True, {"data", "local-sgd", "sil-free"}),
                                       (1, False, None), (1, True, {"sil-free"})):
            with self.subTest(latency=latency, local=local):
                flags = ("--allow-local",) if local else ()
                cluster = self.cluster(latency)
                found, best = self.choose(self.deck, "--cluster", cluster, "--ranks", 2, *flags)
                name = found["chosen"]["strategy"]
                if wanted is not None:
                    self.assertIn(name, wanted)
                self.assertEqual(found["may_change_accuracy"], name.startswith(("sil", "local")))
                self.assertLessEqual(0.98 * found["chosen"]["epoch_s"], found["second"]["epoch_s"])
                self.assertEqual("local" in found, not local)
                rows = json.loads(run("plan", "predict", best, "--cluster", cluster, "--ranks", 2, "--strategy", name,
                                      "--stages", found["chosen"]["stages"], "--json", "-").stdout)
                self.assertEqual(found["cluster"], rows[0]["cluster"])
                self.assertEqual([(row["epoch_s"], row["memory_bytes"]) for row in rows],
                                 [(found["chosen"]["epoch_s"], found["chosen"]["memory_bytes"])])
                result = run("train", best, "run/steps=3", ranks=2)
                self.assertDone(result)

    def test_layers_are_shared_where_that_is_fastest(self):
        """A batch of one sample can neither be divided among replicas nor into microbatches."""
        dense = "network/layers=[{type='dense',units=512,repeat=3,activation='relu'},{type='dense'}]"
        found, best = self.choose(self.deck, dense, "strategy/cuts=flops", "training/batch=1", "--cluster",
                                  self.cluster(1e-9), "--ranks", 2)
        chosen = found["chosen"]
        self.assertEqual((chosen["strategy"], chosen["split"], chosen["parts"]), ("grid", "grid", 2))
        self.assertFalse(found["may_change_accuracy"])
        result = run("train", best, "run/steps=3", "-d", self.folder / "r", ranks=2)
        self.assertDone(result)
        self.assertEqual(support.summary_of(self.folder / "r")["grid"]["parts"], 2)

    def test_what_is_said(self):
        best = self.folder / "best.toml"
        result = run("plan", "deck", self.deck, "--ranks", 2, "-o", best, ranks=2)
        self.assertDone(result)
        for part in ("chosen: ", "second best: ", "with --allow-local: ", "its accuracy may differ",
                     f"mpirun -n 2 partita train {best}", "links between ranks: assumed"):
            self.assertIn(part, result.stdout)
        result = run("plan", "deck", self.deck, "--ranks", 2, "-o", best, "--allow-local")
        self.assertIn("its accuracy may differ from that of conventional training", result.stdout)
        norms = ("strategy/cuts=flops", "network/layers=[{type='dense',units=8},{type='batch-norm'},{type='dense'}]")
        result = run("plan", "deck", self.deck, *norms, "--ranks", 2, "-o", best, "--cluster", self.cluster(1e-9))
        self.assertIn("batch-norm sees 1/2 of a batch at a time", result.stdout)

    def test_microbatches_of_the_deck_stay(self):
        """They save memory, and statistics of batches depend on them."""
        deck = ("strategy/kind=joint", "strategy/microbatches=8", "strategy/cuts=flops")
        found, best = self.choose(self.deck, *deck, "--ranks", 1, "--cluster", self.cluster(1e-6))
        rows = json.loads(run("plan", "predict", self.deck, *deck, "--ranks", 1, "--strategy", "serial", "--cluster",
                              self.cluster(1e-6), "--json", "-").stdout)
        self.assertEqual(found["chosen"]["memory_bytes"], rows[0]["memory_bytes"])
        self.assertIn("microbatches = 8", best.read_text())

    def test_memory_and_refusals(self):
        best = self.folder / "best.toml"
        small = self.cluster(1e-6, 1000)
        for arguments, part in ((("--ranks", 2, "--cluster", small), "fits into node/memory, 1.00 kB; the smallest needs"),
                                (("--ranks", 512, "training/batch=1"), "fits the network and the batch"),
                                (("--ranks", 2, "--cluster", self.folder / "none.toml"), "no such description of a")):
            result = run("plan", "deck", self.deck, "-o", best, *arguments)
            self.assertRefused(result, part)
            self.assertFalse(best.exists())
        self.assertRefused(run("plan", "deck", self.deck, "--ranks", 2, "-o", self.deck), "is also an input")
        self.assertRefused(run("plan", "deck", self.deck, "--ranks", 2), "--output is required")
        self.assertRefused(run("plan", "deck", self.deck, "-o", best), "--ranks is required")


class Refusals(support.RunTest):
    def refused(self, *arguments, parts, ranks=1):
        self.assertRefused(run("plan", "predict", *arguments, ranks=ranks), *parts)

    def test_command(self):
        for ranks in (1, 2):
            self.assertRefused(run("plan", ranks=ranks), "a command is required after plan: "
                               "calibrate, predict, deck, schedule, place or search")
        self.refused(parts=["DECK is required"])
        self.refused(self.deck, "--bogus", parts=["unknown argument '--bogus'", "partita plan predict --help"])
        self.assertDone(run("plan", "--help"))
        self.assertIn("Usage: partita plan predict DECK", run("plan", "predict", "--help").stdout)

    def test_options(self):
        for text in ("0", "1,,2", "x", "1,-2", "1,0,99999999999"):
            self.refused(self.deck, "--ranks", text, parts=["--ranks", f"'{text}' is not a list of numbers of ranks"])
        for text in ("16777217", "2,100000000", "99999999999999999999"):
            self.refused(self.deck, "--ranks", text, parts=["--ranks", f"'{text.split(',')[-1]}' is more than 16777216 ranks"])
        self.refused(self.deck, "--ranks", "", parts=["--ranks", "is empty"])
        self.refused(self.deck, "--strategy", "filtre", parts=["'filtre' is not a strategy; did you mean 'filter'?"])
        self.refused(self.deck, "--mode", "papers", parts=["--mode: 'papers' is not a choice here; did you mean 'paper'?"])
        self.refused(self.deck, "--scaling", "small", parts=["--scaling: 'small' is not a choice here; valid: 'strong', 'weak'"])
        self.refused(self.deck, "--strategy", "grid", "--mode", "paper", parts=["'grid' needs --mode exact"], ranks=2)
        self.refused(self.deck, "--strategy", "sil-relay", "--mode", "paper", parts=["'sil-relay' needs --mode exact"])
        self.refused(self.deck, "--stages", "2", "--mode", "paper", parts=["--stages needs --mode exact"])
        self.refused(self.deck, "--stages", "0", parts=["--stages"])
        self.refused(self.deck, "--parts", "2", "--mode", "paper", parts=["--parts needs --mode exact"])
        self.refused(self.deck, "--parts", "0", parts=["--parts"])
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
                             ("[[kernel]]\ntype = 'dense'\nforward = 1e9\n", "`backward` is missing"),
                             ("[[concurrency]]\nranks = 2\nfactor = 0\n", "concurrency[0]/factor", "out of range"),
                             ("[node\n", "not TOML")):
            with self.subTest(text):
                path = self.write("cluster.toml", text)
                self.refused(self.deck, "--cluster", path, parts=[path, *parts])


if __name__ == "__main__":
    support.main()
