"""partita plan calibrate: measures, writes what predict reads, and refuses noise and bad paths."""

import json
import math
import sys
import tomllib

import support
from support import DECKS, run

ANY_NOISE = ("--noise", "1e6")  # tests share their cores
DECK = DECKS / "demo.toml"


class Calibrations(support.RunTest):
    def calibrate(self, *arguments, ranks=2):
        file = self.folder / "cluster.toml"
        result = run("plan", "calibrate", *arguments, *ANY_NOISE, "--quick", "-o", file, ranks=ranks)
        self.assertDone(result)
        with open(file, "rb") as text:
            return file, tomllib.load(text)

    def test_what_is_measured(self):
        for ranks, rings in ((1, []), (2, [2]), (3, [2, 3])):
            with self.subTest(ranks=ranks):
                _, cluster = self.calibrate(ranks=ranks)
                self.assertEqual(cluster["node"]["ranks"], ranks)
                self.assertNotIn("link", cluster)  # the assumed one is not a measurement
                self.assertGreater(cluster["node"]["memory"], 1e6)
                self.assertTrue(1e8 < cluster["compute"]["flops"] < 1e14, cluster["compute"])
                self.assertTrue(1e-12 < cluster["compute"]["seconds_per_reduced_byte"] < 1e-7, cluster["compute"])
                rows = cluster.get("message", [])
                self.assertEqual(sorted({row["ranks"] for row in rows}), rings)
                for ring in rings:
                    sizes = [row["bytes"] for row in rows if row["ranks"] == ring]
                    self.assertEqual(sizes, [64 * 2**i for i in range(len(sizes))])
                    times = [row["seconds"] for row in rows if row["ranks"] == ring]
                    self.assertTrue(all(1e-8 < seconds < 1 for seconds in times), times)

    def test_a_network_is_timed_and_predicted(self):
        """Serial training is predicted to take the time that was measured."""
        file, cluster = self.calibrate(DECK)
        (network,) = cluster["network"]
        self.assertEqual(network["deck"], "demo")
        self.assertGreater(cluster["compute"]["seconds_per_update"], 0)
        result = run("plan", "predict", DECK, "--cluster", file, "--ranks", "1", "--strategy", "serial", "--json", "-")
        self.assertDone(result)
        (serial,) = json.loads(result.stdout)
        batch, parameters = 128, 476207
        steps = math.ceil(20000 / batch)
        expected = steps * (batch * network["seconds_per_sample"] + parameters * cluster["compute"]["seconds_per_update"])
        self.assertAlmostEqual(serial["epoch_s"] / expected, 1, delta=1e-4)

    def test_it_is_printed_without_a_file(self):
        result = run("plan", "calibrate", "--quick", *ANY_NOISE, ranks=2)
        self.assertDone(result)
        text = result.stdout[result.stdout.index("[cluster]"):]
        self.assertIn("message", tomllib.loads(text))

    def test_noise_is_refused(self):
        file = self.folder / "cluster.toml"
        result = run("plan", "calibrate", "--quick", "--noise", "0", "-o", file, ranks=2)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn("the time of the same product varies by", result.stderr)
        self.assertFalse(file.exists())

    def test_mistakes(self):
        file = self.folder / "cluster.toml"
        self.assertRefused(run("plan", "calibrate", self.folder / "no.toml", "-o", file), "no.toml", "no such")
        self.assertRefused(run("plan", "calibrate", "-o", self.folder / "no" / "cluster.toml"), "cluster.toml")
        self.assertRefused(run("plan", "calibrate", "--noise", "-1"), "--noise")
        deck = self.write("deck.toml", DECK.read_text())
        self.assertRefused(run("plan", "calibrate", deck, "-o", deck), "deck.toml")
        self.assertEqual(deck.read_text(), DECK.read_text())
        self.assertFalse(file.exists())


if __name__ == "__main__":
    if sys.version_info < (3, 11):
        print("tomllib needs Python 3.11")
        sys.exit(77)
    support.main()
