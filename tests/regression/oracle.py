"""perf/oracle: steps that are predicted and then measured, with hybrids of replicas, stages and parts on four ranks."""

import importlib.util
import json
import math
import subprocess
import sys
from pathlib import Path

import support

SCRIPT = Path(__file__).resolve().parents[2] / "perf" / "oracle" / "accuracy.py"
CLUSTER = "[compute]\nflops = 1e9\nhalf_size = 0\n[[link]]\nlatency = 1e-5\nbandwidth = 1e9\n"
# What the ranks are divided among; all other numbers are 1.
HYBRIDS = {
    **{f"data+{split}": {"replicas", "parts"} for split in ("filter", "channel", "grid", "spatial")},
    "data+pipeline": {"replicas", "stages"},
    **{f"pipeline+{split}": {"stages", "parts"} for split in ("grid", "spatial")},
}


def script():
    specification = importlib.util.spec_from_file_location("oracle_accuracy", SCRIPT)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


class Oracle(support.RunTest):
    def setUp(self):
        super().setUp()
        self.cluster = self.write("cluster.toml", CLUSTER)

    def measure(self, *arguments):
        """What the script prints and its results, of a round in which any noise counts."""
        file = self.folder / "results.json"
        command = [sys.executable, SCRIPT, support._app, "--decks", "small", "--cluster", self.cluster, "--rounds", 1,
                   "--seconds", 0.01, "--noise", 1e9, "--json", file, *arguments]
        result = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=support.HANGS)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout, json.loads(file.read_text())

    def test_hybrids_use_all_ranks(self):
        """Dry runs accept and predict each of them on the small network."""
        module = script()
        path = module.write_decks(self.folder, module.QUICK)["small"]
        for ranks, groups in ((1, 0), (2, 0), (3, 0), (4, 2), (6, 2), (9, 3)):
            found = {name: words for name, words in module.strategies(ranks).items() if "+" in name}
            self.assertEqual(set(found), set(HYBRIDS) if groups else set())
            for name, words in found.items():
                with self.subTest(name, ranks=ranks):
                    values = dict(word.split("=") for word in words)
                    self.assertEqual(len(values), len(words))  # no key is set twice
                    sizes = {key: int(values.get(f"strategy/{key}", 1)) for key in ("replicas", "stages", "parts")}
                    self.assertEqual({key for key, size in sizes.items() if size > 1}, HYBRIDS[name])
                    self.assertEqual(math.prod(sizes.values()), ranks)
                    self.assertEqual(sizes["replicas" if name.startswith("data") else "stages"], groups)
                    case = module.Case("small", path, name, [*words, f"run/cluster={self.cluster}"])
                    case.predict(support._app, ranks)
                    self.assertEqual(case.reason, "")
                    self.assertGreater(case.predicted, 0)

    def test_hybrids_are_measured(self):
        text, results = self.measure("--ranks", 4, "--strategies", *HYBRIDS)
        self.assertEqual([case["strategy"] for case in results["cases"]], [*HYBRIDS, "plan deck"])
        for case in results["cases"]:
            self.assertGreater(case["predicted_s"], 0)
            self.assertEqual(len(case["measured_s"]), 1)
            self.assertGreater(case["measured_s"][0], 0)
            self.assertIn(f"small        {case['strategy']:16} {1e3 * case['predicted_s']:9.3f} ms ", text)
        exact = min(case["measured_s"][0] for case in results["cases"][:-1])
        self.assertAlmostEqual(results["order"]["small"]["chosen_deck_is_slower_by"],
                               results["cases"][-1]["measured_s"][0] / exact - 1)

    def test_two_ranks_have_no_hybrids(self):
        text, results = self.measure("--ranks", 2, "--strategies", "data", "data+grid")
        self.assertEqual([case["strategy"] for case in results["cases"]], ["data", "plan deck"])
        self.assertIn("data+grid: not possible with 2 ranks\n", text)


if __name__ == "__main__":
    support.main()
