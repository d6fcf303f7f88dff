"""partita plan schedule and partita plan place: golden cases of PHAZE, tables, JSON, and what they refuse."""

import fcntl
import json
import os
import re
import shlex
import time
from pathlib import Path

try:
    import tomllib
except ImportError:
    print("tomllib needs Python 3.11")
    raise SystemExit(77) from None

import support
from support import run

SCHEDULE = {"num_tc": 2, "num_vc": 1, "ops": [
    {"id": 10, "core_type": "TC", "latency": 4, "intra_op_latency": 2},
    {"id": 11, "core_type": "VC", "latency": 3, "intra_op_latency": 3},
    {"id": 12, "core_type": "TCandVC", "latency": 1, "intra_op_latency": 1},
    {"id": 13, "core_type": "TC", "latency": 6, "intra_op_latency": 3}], "edges": [[10, 12], [11, 12], [12, 13]]}

FIXED = {"fixedPP": 2, "fixedTMPC": 1, "fixedDP": 2, "numTransformerLayers": 4}


def layers(count=4, degree=1):
    """A chain."""
    nodes = [{"id": i, "parameterSize": 10 / degree, "activationSize": 6 / degree, "optimalLatencyFw": 1 / degree,
              "optimalLatencyBw": 2 / degree, "isTensorParallelized": degree > 1} for i in range(count)]
    edges = [{"sourceId": i, "destId": i + 1, "communicationCost": 4} for i in range(count - 1)]
    return nodes, edges


def placement(**changes):
    graphs = {str(degree): layers(degree=degree) for degree in (1, 2)}
    return {"maxMemoryPerDevice": 100, "maxDevices": 8, "bandwidth": 100, "mbsInBatch": 16,
            "activationRecomputation": False, "optimizerAlgorithm": "SGD",
            "nodes": {degree: nodes for degree, (nodes, _) in graphs.items()},
            "edges": {degree: edges for degree, (_, edges) in graphs.items()}, **changes}


class Case(support.RunTest):
    def answer(self, command, task, *options):
        """What --json writes for a task, and the processor time of the program in seconds."""
        file = self.write("task.json", task if isinstance(task, str) else json.dumps(task))
        begin = support.cpu_seconds()
        result = run("plan", command, file, "--json", "-", *options)
        seconds = support.cpu_seconds() - begin
        self.assertDone(result)
        return json.loads(result.stdout), seconds

    def golden(self, name):
        path = self.data("phaze") / name
        if not path.is_file():
            self.skipTest(f"there is no {path}")
        return json.loads(path.read_text())

    def assertNear(self, value, expected, relative):
        self.assertLessEqual(abs(value - expected), relative * abs(expected), f"{value} is not {expected}")


class Schedules(Case):
    def check_valid(self, task, answer, engine="built-in"):
        """Durations, order, cores and exclusion, from the JSON alone."""
        self.assertEqual(list(answer), ["makespan", "lower_bound", "gap", "engine", "schedule"])
        self.assertEqual(answer["engine"], engine)
        placed = {op["id"]: op for op in answer["schedule"]}
        self.assertEqual(len(placed), len(task["ops"]))
        tolerance = 1e-9 * answer["makespan"]
        for op in task["ops"]:
            own = placed[op["id"]]
            self.assertEqual(list(own), ["id", "start", "end", "all_cores", "tc", "vc"])
            self.assertAlmostEqual(own["end"] - own["start"], op["intra_op_latency" if own["all_cores"] else "latency"],
                                   delta=tolerance)
            for kind, cores in (("tc", task["num_tc"]), ("vc", task["num_vc"])):
                if own["all_cores"] or kind.upper() not in op["core_type"]:
                    self.assertIsNone(own[kind])
                else:
                    self.assertIn(own[kind], range(cores))
            if op["core_type"] == "TCandVC":
                self.assertEqual(own["tc"], own["vc"])
        for first, second in task["edges"]:
            self.assertLessEqual(placed[first]["end"], placed[second]["start"])
        operators = answer["schedule"]
        for i, a in enumerate(operators):
            for b in operators[:i]:
                shared = any(a[kind] is not None and a[kind] == b[kind] for kind in ("tc", "vc"))
                if shared or a["all_cores"] or b["all_cores"]:
                    self.assertTrue(a["end"] <= b["start"] or b["end"] <= a["start"], f"{a} {b}")
        self.assertAlmostEqual(max(op["end"] for op in operators), answer["makespan"], delta=tolerance)

    def test_golden_cases(self):
        for case in self.golden("phaze_ilp_golden.json")["cases"]:
            with self.subTest(case["case"]):
                answer, _ = self.answer("schedule", case)
                self.check_valid(case, answer)
                self.assertNear(answer["makespan"], case["optimal_makespan"], 1e-6)
                self.assertLess(answer["gap"], 1e-9)

    def test_llama2_layer(self):
        for case in self.golden("phaze_ilp_llama2_layer.json")["cases"]:
            with self.subTest(f"{case['graph']} {case['num_tc']} {case['num_vc']}"):
                answer, seconds = self.answer("schedule", case)
                self.check_valid(case, answer)
                self.assertLessEqual(answer["makespan"], case["lower_bound"] * (1 + 1e-4))
                self.assertNear(answer["makespan"], case["best_makespan"], 1e-5)
                self.assertLess(answer["gap"], 1e-9)
                self.assertLess(seconds, support.within(10))

    def test_table_and_file(self):
        task, file = self.write("task.json", json.dumps(SCHEDULE)), self.folder / "schedule.json"
        for ranks in (1, 2):
            result = run("plan", "schedule", task, "--json", file, "--time-limit", "5", ranks=ranks)
            self.assertDone(result)
            self.assertEqual(result.stdout.count("makespan 8, at least 8 (gap 0 %)"), 1)  # 10 and 11 together, 12, 13
            self.assertIn("TC 0, VC 0", result.stdout)
            self.assertEqual(result.stdout.splitlines()[-1].split(), ["13", "5", "8", "all"])
            answer = json.loads(file.read_text())
            self.check_valid(SCHEDULE, answer)
            self.assertEqual(answer["makespan"], 8)


    def test_engines(self):
        """Each engine of this build gives the same makespan; the others are refused."""
        task, engines = self.write("task.json", json.dumps(SCHEDULE)), run("info")
        self.assertDone(engines)
        line = next(line for line in engines.stdout.splitlines() if "schedules  " in line)
        self.assertIn("built-in (branch and bound)", line)
        for engine, version in (("highs", "highs (HiGHS "), ("cbc", "cbc (CBC ")):
            if version not in line:
                self.assertIn("without", line)
                self.assertRefused(run("plan", "schedule", task, "--engine", engine, ranks=2),
                                   f"this build has no engine '{engine}'")
                continue
            answer, _ = self.answer("schedule", SCHEDULE, "--engine", engine)
            self.check_valid(SCHEDULE, answer, engine)
            self.assertNear(answer["makespan"], 8, 1e-5)
            for case in self.golden("phaze_ilp_golden.json")["cases"]:
                with self.subTest(engine=engine, case=case["case"]):
                    answer, _ = self.answer("schedule", case, "--engine", engine)
                    self.check_valid(case, answer, engine)
                    self.assertNear(answer["makespan"], case["optimal_makespan"], 1e-5)

    def test_cache(self):
        task, file = self.write("task.json", json.dumps(SCHEDULE)), self.folder / "schedules"
        first = run("plan", "schedule", task, "--cache", file, "--json", "-")
        self.assertDone(first)
        content = file.read_text()
        self.assertEqual(content.splitlines()[0], "partita schedules 2")
        second = run("plan", "schedule", task, "--cache", file, "--json", "-")
        self.assertDone(second)
        self.assertEqual(second.stdout, first.stdout)
        self.assertEqual(file.read_text(), content)
        for damaged in (content.replace("0x", "0x1", 1), content[:-9] + "\n"):  # another time, and fewer digits
            file.write_text(damaged)
            self.assertRefused(run("plan", "schedule", task, "--cache", file), f"{file.name}:", "is not a schedule")
        for kept in (-9, -1):  # a last row without its end is computed again
            file.write_text(content[:kept])
            again = run("plan", "schedule", task, "--cache", file, "--json", "-")
            self.assertDone(again)
            self.assertEqual(again.stdout, first.stdout)
            self.assertEqual(file.read_text(), content)
        self.assertRefused(run("plan", "schedule", task, "--cache", task), "is also an input")
        nowhere = run("plan", "schedule", task, "--cache", self.folder / "nowhere" / "cache")
        self.assertRefused(nowhere, "cannot be written")
        self.assertEqual(nowhere.stdout, "")  # it was found before the work

    def wait_for_lock(self, process):
        """Waits until the process has opened the folder, for whose lock it then waits."""
        end = time.monotonic() + support.HANGS
        opened = []
        while self.folder.as_posix() not in opened and process.poll() is None and time.monotonic() < end:
            try:
                opened = [os.readlink(file) for file in Path(f"/proc/{process.pid}/fd").iterdir()]
            except FileNotFoundError:  # closed meanwhile
                continue
        self.assertIn(self.folder.as_posix(), opened)

    def test_two_processes_add_to_one_cache(self):
        task, file = self.write("task.json", json.dumps(SCHEDULE)), self.folder / "schedules"
        faster = self.write("faster.json", json.dumps({**SCHEDULE, "ops": [{**op, "latency": op["latency"] / 2,
                                                       "intra_op_latency": op["intra_op_latency"] / 2}
                                                       for op in SCHEDULE["ops"]]}))
        lines = []
        for number, one in enumerate((task, faster)):
            alone = self.folder / f"alone-{number}"
            self.assertDone(run("plan", "schedule", one, "--cache", alone))
            lines.append(alone.read_text().splitlines())
        self.assertNotEqual(*lines)
        folder = os.open(self.folder, os.O_RDONLY)
        self.addCleanup(os.close, folder)
        fcntl.flock(folder, fcntl.LOCK_EX)  # as a second process that writes the file
        process = support.start("plan", "schedule", task, "--cache", file)
        self.wait_for_lock(process)
        file.write_text("\n".join(lines[1]) + "\n")
        fcntl.flock(folder, fcntl.LOCK_UN)
        self.assertDone(support.finish(process))
        self.assertEqual(set(file.read_text().splitlines()), set(lines[0] + lines[1]))


class Placements(Case):
    KEYS = ["feasible", "finalTimePerBatch", "dataParallelDegree", "tensorParallelDegree", "stages",
            "fixedStrategyTimePerBatch", "limit"]

    def check(self, task, time, relative=1e-9, most_seconds=None):
        answer, seconds = self.answer("place", task)
        if most_seconds:
            self.assertLess(seconds, most_seconds)
        self.assertEqual(list(answer), self.KEYS)
        self.assertEqual(answer["feasible"], time is not None)
        if time is None:
            for key in ("finalTimePerBatch", "dataParallelDegree", "tensorParallelDegree"):
                self.assertIsNone(answer[key])
            self.assertEqual(answer["stages"], [])
            self.assertIn("tensor degree", answer["limit"])
        else:
            self.assertNear(answer["finalTimePerBatch"], time, relative)
            self.assertIsNone(answer["limit"])
            ids = [node["id"] for node in task["nodes"][str(answer["tensorParallelDegree"])]]
            self.assertEqual(sorted(i for stage in answer["stages"] for i in stage["nodes"]), sorted(ids))
            devices = sum(stage["devicesForStage"] for stage in answer["stages"])
            self.assertLessEqual(devices * answer["dataParallelDegree"], task["maxDevices"])
        return answer

    def test_golden_cases(self):
        for case in self.golden("phaze_dp_golden.json")["cases"]:
            with self.subTest(case["case"]):
                answer = self.check(case["input"], case["expected"]["timePerBatch"])
                self.assertIsNone(answer["fixedStrategyTimePerBatch"])

    def test_llama2(self):
        expected = {"hbm32_rec1": (7.72546483567177, 60, 17), "hbm80_rec1": (7.72546483567177, 60, 17),
                    "hbm80_rec0": (6.595673291028913, 84, 12), "hbm32_rec0": (11.199, 111, 9)}
        for name, (seconds, replicas, stages) in expected.items():
            with self.subTest(name):
                case = self.golden(f"llama2_7b_like_dp_{name}.json")
                relative = 1e-5 if name == "hbm32_rec0" else 1e-9
                answer = self.check(case["input"], seconds, relative, support.within(0.5))
                self.assertEqual((answer["dataParallelDegree"], len(answer["stages"])), (replicas, stages))
                if case["authors_output"] is None:
                    self.assertIsNone(answer["fixedStrategyTimePerBatch"])  # the authors' program ends without a plan
                else:
                    self.assertNear(answer["fixedStrategyTimePerBatch"],
                                    case["authors_output"]["fixedStrategyTimePerBatch"], 1e-9)

    def test_all_plans_of_a_small_network(self):
        for changes in ({}, {"maxMemoryPerDevice": 40}, {"activationRecomputation": True, "optimizerAlgorithm": "Adam"}):
            with self.subTest(changes):
                task = placement(**changes, **FIXED)
                fast, _ = self.answer("place", task)
                slow, _ = self.answer("place", task, "--brute-force")
                self.assertTrue(fast["feasible"])
                self.assertNear(fast["finalTimePerBatch"], slow["finalTimePerBatch"], 1e-12)
                if fast["fixedStrategyTimePerBatch"] is not None:
                    self.assertLessEqual(fast["finalTimePerBatch"], fast["fixedStrategyTimePerBatch"])

    def test_nodes_and_choices(self):
        """Extensions change what they should: stages say where they are and what they chose, and brute force agrees."""
        plain, _ = self.answer("place", placement())
        self.assertEqual(set(plain["stages"][0]), {"nodes", "devicesForStage"})
        nodes = {"devicesPerNode": 4, "bandwidthInNode": 1000, "bandwidth": 2}
        choices = {"chooseRecomputation": True, "chooseShardedOptimizer": True, "chooseOffload": True, "hostBandwidth": 50,
                   "optimizerAlgorithm": "Adam", "maxMemoryPerDevice": 45,
                   "nodes": {"1": layers()[0]}, "edges": {"1": layers()[1]}}
        for changes, keys in ((nodes, {"opensNode"}),
                              (choices, {"activationRecomputation", "shardedOptimizer", "offload"}),
                              ({**nodes, **choices}, {"opensNode", "activationRecomputation", "shardedOptimizer", "offload"})):
            with self.subTest(changes):
                task = placement(**changes, **FIXED)
                slow, _ = self.answer("place", task, "--brute-force")
                fast = self.check(task, slow["finalTimePerBatch"])
                for stage in fast["stages"]:
                    self.assertEqual(set(stage), {"nodes", "devicesForStage"} | keys)
                if "opensNode" in keys:
                    self.assertTrue(fast["stages"][0]["opensNode"])
                if "offload" in keys:
                    self.assertTrue(any(stage["offload"] or stage["shardedOptimizer"] for stage in fast["stages"]))
        one = {"bandwidth": 2}
        near, far = (self.answer("place", placement(**changes))[0]["finalTimePerBatch"] for changes in (nodes, one))
        self.assertLess(near, far)
        text = run("plan", "place", self.write("task.json", json.dumps(placement(**nodes, **choices)))).stdout
        self.assertRegex(text, r"(shards|offloads) its optimiser")

    def test_table_and_file(self):
        task, file = self.write("task.json", json.dumps(placement(**FIXED))), self.folder / "plan.json"
        for ranks in (1, 2):
            result = run("plan", "place", task, "--json", file, ranks=ranks)
            self.assertDone(result)
            answer = json.loads(file.read_text())
            self.assertEqual(result.stdout.count("s per batch"), 2)
            self.assertIn(f"tensor parallel {answer['tensorParallelDegree']}\n", result.stdout)
            rows = result.stdout[result.stdout.index("stage  devices"):].splitlines()[1:]
            self.assertEqual(len(rows), len(answer["stages"]))

    def test_nothing_fits(self):
        task = placement(maxMemoryPerDevice=21, maxDevices=1, **FIXED)
        file = self.write("task.json", json.dumps(task))
        result = run("plan", "place", file)
        self.assertDone(result)
        self.assertIn("no plan fits: tensor degree 1: layer 0 needs 26 bytes on a device of 21; tensor degree 2: layer 0 "
                      "needs 2 devices of 1", result.stdout)
        self.assertIn("the fixed plan does not fit", result.stdout)
        self.assertIsNone(self.check(task, None)["fixedStrategyTimePerBatch"])


class Decks(support.RunTest):
    DECK = support.DECKS / "demo.toml"
    SMALL = ("data/samples=256", "data/test_samples=47", "run/epochs=1")

    def place(self, *options, ranks=1):
        result = run("plan", "place", self.DECK, *self.SMALL, *options, ranks=ranks)
        self.assertDone(result)
        return result.stdout

    def test_the_deck_of_a_plan_trains(self):
        for ranks in (1, 2, 3):
            with self.subTest(ranks=ranks):
                deck = self.folder / f"plan-{ranks}.toml"
                plan = json.loads(self.place("--json", "-", "-o", deck, ranks=ranks))
                self.assertTrue(plan["feasible"])
                self.assertEqual(plan["stages"], len(plan["cuts"]) + 1)
                self.assertEqual(plan["ranks"], plan["stages"] * plan["replicas"])
                self.assertLessEqual(plan["ranks"], ranks)
                self.assertLessEqual(plan["step_s"], plan["one_rank_step_s"])
                with open(deck, "rb") as file:
                    strategy = tomllib.load(file)["strategy"]
                self.assertEqual(strategy["kind"], "pipeline" if plan["ranks"] > 1 else "joint")
                self.assertEqual(strategy["replicas"], plan["replicas"])
                if plan["cuts"]:
                    self.assertEqual((strategy["stages"], strategy["cuts"]), (plan["stages"], plan["cuts"]))
                self.assertEqual(strategy["microbatches"], plan["microbatches"])
                result = run("train", deck, ranks=plan["ranks"])
                self.assertDone(result)

    def test_a_log_of_workers_is_no_part_of_a_plan(self):
        text = support.SMALL_DECK.split("[strategy]")[0].replace("[run]", "[run]\ndecisions = true")
        workers = self.write("workers.toml", text + '[strategy]\nkind = "hogbatch"\n[optimiser]\nkind = "sgd"\nmomentum = 0.0\n')
        for command in (("place", "-o"), ("deck", "--ranks", "2", "-o")):
            deck = self.folder / "plan.toml"
            self.assertDone(run("plan", command[0], workers, *command[1:], deck, ranks=2 if command[0] == "place" else 1))
            with open(deck, "rb") as file:
                self.assertFalse(tomllib.load(file)["run"]["decisions"])

    def test_plans_that_train_would_refuse(self):
        """Statistics over all replicas need a fixed order of microbatches."""
        layers = ('network/layers=[{type="dense",units=512},{type="batch-norm",replicas=true},{type="dense",units=512},'
                  '{type="batch-norm",replicas=true},{type="dense"}]')
        for ranks in (2, 4):
            deck = self.folder / "plan.toml"
            plan = json.loads(self.place("--json", "-", "-o", deck, layers, "strategy/microbatches=4", ranks=ranks))
            self.assertDone(run("train", deck, "-n", "--ranks", str(plan["ranks"])))
        rows = run("plan", "predict", self.DECK, *self.SMALL, layers, "strategy/microbatches=4", "--ranks", "4", "--stages",
                   "2", "--strategy", "pipeline")
        self.assertIn("needs a fixed order of the microbatches", rows.stdout)

    def test_slow_links_and_memory_decide(self):
        def cluster(**keys):
            return self.write("cluster.toml", "[node]\nmemory = {memory}\n[[link]]\nbandwidth = {bandwidth}\n".format(
                **{"memory": 0, "bandwidth": 1e10, **keys}))
        fast = json.loads(self.place("--json", "-", "--ranks", "4", "--cluster", cluster()))
        slow = json.loads(self.place("--json", "-", "--ranks", "4", "--cluster", cluster(bandwidth=1e4)))
        self.assertGreater(fast["ranks"], 1)
        self.assertEqual(slow["ranks"], 1)
        half = cluster(bandwidth=1e4, memory=0.6 * slow["memory_bytes"])
        small = json.loads(self.place("--json", "-", "--ranks", "4", "--cluster", half))
        self.assertGreater(small["ranks"], 1)
        self.assertLessEqual(small["memory_bytes"], 0.6 * slow["memory_bytes"])
        tiny = ["--ranks", "4", "--cluster", cluster(memory=1000)]
        self.assertIn("no plan was found that fits", self.place(*tiny))
        deck = self.folder / "earlier.toml"
        self.place("--ranks", "1", "-o", deck)
        earlier = deck.read_text()
        result = run("plan", "place", self.DECK, *self.SMALL, *tiny, "-o", deck, "--json", self.folder / "none.json")
        self.assertRefused(result, f"{deck}: was not written: no plan was found that fits")
        self.assertFalse(json.loads((self.folder / "none.json").read_text())["feasible"])
        self.assertEqual(deck.read_text(), earlier)

    def test_stages_of_equal_memory_are_found(self):
        """Cuts that balance the time need more memory on a rank than this cluster has."""
        def group(channels, first):
            return (f'{{type="residual",recompute=true,layers=[{{type="conv2d",channels={channels},padding=1,{first}'
                    f'activation="relu"}},{{type="conv2d",channels={channels},padding=1}}]')
        shortcut = ',shortcut=[{type="conv2d",channels=16,kernel=1,stride=2}]'
        deck = self.write("images.toml", f"""
[run]
precision = "bf16"
[data]
kind = "noise"
image_size = 8
channels = 3
classes = 10
samples = 200
[network]
layers = [{{ type = "conv2d", channels = 8, padding = "same", activation = "relu" }}, {group(8, "")}}},
  {group(16, "stride=2,")}{shortcut}}}, {group(16, "")}}}, {{ type = "global-average-pool" }}, {{ type = "dense" }}]
[training]
batch = 32
""")
        cut = json.loads(run("plan", "predict", deck, "strategy/kind=pipeline", "strategy/stages=2", "strategy/cuts=memory",
                             "strategy/microbatches=8", "--strategy", "pipeline", "--ranks", "2", "--json", "-").stdout)
        memory = cut[0]["memory_bytes"]
        cluster = self.write("tight.toml", f"[node]\nmemory = {memory}\n[compute]\nflops = 1e9\nbf16_flops = 1e9\n")
        result = run("plan", "place", deck, "--ranks", "2", "--cluster", cluster, "--json", "-")
        self.assertDone(result)
        self.assertLessEqual(json.loads(result.stdout)["memory_bytes"], memory)

    def test_the_command_is_for_a_shell(self):
        name = self.folder / "a b'c.toml"
        printed = self.place("--ranks", "2", "-o", name).splitlines()
        command = next(line for line in printed if line.startswith("mpirun"))
        self.assertEqual(shlex.split(command)[-1], str(name))

    def test_the_prediction_is_that_of_training(self):
        cluster = self.write("cluster.toml", "[compute]\nseconds_per_update = 1e-9\n[node]\nranks = 2\n[[link]]\nranks = 2\n"
                             "bandwidth = 1e10\n[[link]]\nbandwidth = 1e9\nlatency = 1e-5\n")
        for ranks in ("1", "2", "4"):
            with self.subTest(ranks=ranks):
                deck = self.folder / f"plan-{ranks}.toml"
                plan = json.loads(self.place("--json", "-", "-o", deck, "--ranks", ranks, "--cluster", cluster))
                result = run("train", deck, f"run/cluster={cluster}", "-n", "--ranks", str(plan["ranks"]))
                self.assertDone(result)
                predicted = float(re.search(r"predicted ([0-9.e+-]+) ms per step", result.stdout)[1])
                self.assertAlmostEqual(predicted, 1e3 * plan["step_s"], delta=1e-3 * predicted)

    def test_layers_that_are_tied_stay_together(self):
        layers = ('[{ type = "embedding", width = 16 }, { type = "dense", units = 16, repeat = 6 }, '
                  '{ type = "dense", bias = false, tied = true }]')
        deck = self.write("tied.toml", f'[run]\nsteps = 2\n[data]\nkind = "grammar"\nsequence = 16\nsamples = 64\n'
                          f'test_samples = 8\n[network]\nlayers = {layers}\n[training]\nbatch = 32\n')
        cluster, output = self.write("cluster.toml", "[compute]\nflops = 1e7\n"), self.folder / "plan.toml"
        result = run("plan", "place", deck, "--ranks", "4", "--cluster", cluster, "-o", output, "--json", "-")
        self.assertDone(result)
        plan = json.loads(result.stdout)
        self.assertEqual((plan["feasible"], plan["cuts"], plan["ranks"]), (True, [], 4))
        self.assertDone(run("train", output, ranks=4))

    def test_memory_is_saved_where_it_must_be(self):
        group = '{ type = "block", repeat = 2, layers = [{ type = "dense", units = 256, activation = "relu", repeat = 4 }] }'
        deck = self.write("deck.toml", f'[run]\nsteps = 1\n[data]\nsamples = 8192\ntest_samples = 8\n[network]\n'
                          f'layers = [{group}, {{ type = "dense" }}]\n[training]\nbatch = 8192\n[optimiser]\nkind = "adam"\n')

        def place(share, *more):
            memory = share * whole["memory_bytes"] if share else 0
            cluster = self.write("cluster.toml", f"[node]\nmemory = {memory}\n")
            result = run("plan", "place", deck, "--ranks", "1", "--cluster", cluster, "--json", "-", "-o", output, *more)
            plan = json.loads(result.stdout)
            self.assertEqual(result.returncode, 0 if plan["feasible"] else 2, result.stderr)
            if share and plan["feasible"]:
                self.assertLessEqual(plan["memory_bytes"], memory)
            return plan
        output, whole = self.folder / "plan.toml", {}
        whole = place(0)
        self.assertEqual((whole["recomputing_stages"], whole["offload"]), ([], False))
        self.assertNotIn("recompute = true", output.read_text())
        for share in (0.9 ** i for i in range(1, 30)):  # with less and less memory, more microbatches come first
            again = place(share)
            if again["recomputing_stages"]:
                break
            self.assertFalse(again["offload"])
        self.assertEqual((again["recomputing_stages"], again["offload"]), ([0], False))
        told = run("plan", "place", deck, "--ranks", "1", "--cluster", self.folder / "cluster.toml").stdout
        self.assertIn("these stages recompute their groups of layers: 1\n", told)
        self.assertIn("recompute = true", output.read_text())
        self.assertDone(run("train", output))
        small = ("optimiser/offload_bucket=1024", "training/batch=64")
        whole = place(0, *small)
        files = place(0.6, *small)
        self.assertTrue(files["offload"])
        self.assertIn('offload = "file"', output.read_text())
        self.assertDone(run("train", output, "-d", self.folder / "run"))
        self.assertFalse(place(0.1)["feasible"])

    def test_the_micro_batches_of_a_pipeline_stay(self):
        options = ("strategy/kind=pipeline", "strategy/microbatches=16", "--ranks", "2", "--json", "-")
        self.assertEqual(json.loads(self.place(*options))["microbatches"], 16)
        self.assertTrue(json.loads(self.place(*options, "training/batch=5"))["feasible"])  # one per sample

    def test_refusals(self):
        task = self.write("task.json", json.dumps(placement()))
        for options, part in ((("--brute-force",), "--brute-force needs layers as JSON"),
                              (("-o", self.DECK), "is also an input"), (("training/bach=3",), "did you mean")):
            with self.subTest(part):
                self.assertRefused(run("plan", "place", self.DECK, *options, ranks=2), part)
        deep = "network/layers=[{type='dense',units=4,repeat=4096},{type='dense'}]"
        self.assertRefused(run("plan", "place", self.DECK, deep, "--ranks", 2),
                           "a placement of 4097 layers would take too long to find; at most 4096 are possible")
        for options, part in ((("--ranks", "2"), "need a deck"), (("training/batch=3",), "changes a deck"),
                              (("-o", "x.toml"), "need a deck")):
            with self.subTest(part):
                self.assertRefused(run("plan", "place", task, *options), part)


class Refusals(support.RunTest):
    def refused(self, command, content, *parts, options=(), ranks=1):
        file = self.write("task.json", content if isinstance(content, (str, bytes)) else json.dumps(content))
        self.assertRefused(run("plan", command, file, *options, ranks=ranks), *parts)

    def test_command_line(self):
        for command in ("schedule", "place"):
            self.assertRefused(run("plan", command), "FILE is required")
            self.assertRefused(run("plan", command, self.folder / "none.json", ranks=2), "none.json: cannot be read")
            self.assertRefused(run("plan", command, self.folder), "is a folder, not a file")
            self.refused(command, "{}", "is also an input", options=("--json", self.folder / "task.json"))
            self.refused(command, "{}", "/dev/null/nowhere", options=("--json", "/dev/null/nowhere/x"))
        self.refused("schedule", SCHEDULE, "'0' is not a time", options=("--time-limit", "0"))

    def test_files(self):
        for command in ("schedule", "place"):
            for content, *parts in (("", ":1:1: is not JSON"), (b"\x89HDF\r\n", "is not JSON"), ("NaN", "is not JSON"),
                                    ("[" * 1000, "is nested more than 100 levels deep"),
                                    ("3", "must be an object, not a number"), ("{}", "is missing"),
                                    ('{"a": 1, "a": 2}', "the name 'a' occurs twice"), ('{"a": 1e999}', ":1:11: the number is too large"),
                                    (b" " * 100_000_000, "is larger than 16777216 bytes")):
                with self.subTest(command=command, content=content[:20]):
                    self.refused(command, content, *parts)

    def test_operators(self):
        def changed(**changes):
            return {**SCHEDULE, "ops": [{**SCHEDULE["ops"][0], **changes}, *SCHEDULE["ops"][1:]]}
        for task, part in ((changed(core_type="tc"), "/ops/0/core_type: 'tc' is not valid; did you mean 'TC'?"),
                           (changed(latency=-1), "/ops/0/latency: must be a number from 0"),
                           (changed(latency=None), "/ops/0/latency: must be a number, not null"),
                           (changed(id=13), "/ops/3/id: 13 is also the id of element 0"),
                           ({**SCHEDULE, "edges": [[10, 9]]}, "/edges/0/1: nothing has the id 9"),
                           ({**SCHEDULE, "edges": [[10, 12], [12, 13], [13, 10]]}, "/edges: the edges form a cycle"),
                           ({**SCHEDULE, "num_vc": 0}, "/num_vc: must be a number from 1"),
                           ({**SCHEDULE, "ops": SCHEDULE["ops"] * 2000}, "/ops: has more than 4096 elements")):
            with self.subTest(part):
                self.refused("schedule", task, part)

    def test_layers(self):
        nodes, edges = layers()
        apart = {"nodes": {"1": layers(20)[0]}, "edges": {"1": []}}
        for task, part in ((placement(edges={"1": edges}), "/edges: '2' is missing"),
                           (placement(nodes={"one": nodes}), "/nodes: 'one' is not a degree of tensor parallelism"),
                           (placement(maxDevices=1.5), "/maxDevices: must be a whole number"),
                           (placement(bandwidth=0), "/bandwidth: must be a number from 1"),
                           (placement(fixedPP=3), "'fixedTMPC' is missing"),
                           (placement(devicesPerNode=3), "/devicesPerNode: must divide maxDevices, 8"),
                           (placement(devicesPerNode=2), "'bandwidthInNode' is missing"),
                           (placement(devicesPerNode=2, bandwidthInNode=99), "/bandwidthInNode: must be a number from 100"),
                           (placement(maxDevices=2**30, devicesPerNode=2**30, bandwidthInNode=1000),
                            "nodes/1: the table of all cuts would need more than 512 MiB"),
                           (placement(maxDevices=2**30, mbsInBatch=2**30, optimizerAlgorithm="Adam", chooseShardedOptimizer=True),
                            "at most 1048576 are possible"),
                           (placement(chooseOffload=True, optimizerAlgorithm="Adam"), "'hostBandwidth' is missing"),
                           (placement(chooseOffload=True, hostBandwidth=50), "has no effect unless optimizerAlgorithm is Adam"),
                           (placement(bandwidthInNode=1000), "has no effect unless devicesPerNode is more than 1"),
                           (placement(chooseOffload=1), "/chooseOffload: must be true or false"),
                           (placement(chooseRecomputation=True, activationRecomputation=True), "has no effect"),
                           (placement(**apart), "nodes/1: the layers can be cut in more than 40,000 places")):
            with self.subTest(part):
                self.refused("place", task, part, ranks=2 if "40,000" in part else 1)
        self.refused("place", placement(nodes={"1": layers(13)[0]}, edges={"1": layers(13)[1]}),
                     "--brute-force takes at most 12 layers", options=("--brute-force",))


if __name__ == "__main__":
    support.main()
