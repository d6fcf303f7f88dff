"""perf/hogbatch: times to a loss, and the picture of the results."""

import json
import statistics
import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path

import support

SCRIPTS = Path(__file__).resolve().parents[2] / "perf" / "hogbatch"
DECK = support.SMALL_DECK.replace('kind = "sil"\nstages = 2\ncuts = [3]\nreplicas = 1\n', 'kind = "joint"\n') + """
[optimiser]
kind = "sgd"
momentum = 0.0
schedule = "constant"
"""


class Races(support.RunTest):
    def python(self, script, *arguments, expected=0):
        result = subprocess.run([sys.executable, SCRIPTS / script, *map(str, arguments)], capture_output=True, text=True,
                                timeout=support.HANGS)
        self.assertEqual(result.returncode, expected, result.stdout + result.stderr)
        return result.stdout + result.stderr

    def race(self, name, *arguments):
        deck, file = self.write("workers.toml", DECK), self.folder / name
        return file, self.python("time_to_loss.py", support._app, deck, "--batches", 40, "--reference", 40, "--rates", 0.05,
                                 "--seeds", 1, 2, "--json", file, *arguments)

    def test_picture(self):
        skipped = ["--skip", "replicas", "local-sgd", "synchronous", "published", "proportional", "ringmaster"]
        file, table = self.race("race.json", "--loss", 2.2, "--epochs", 3, *skipped)
        race = json.loads(file.read_text())
        self.assertEqual([way["name"] for way in race["ways"]], ["single 40", "fixed", "adaptive"])
        for way in race["ways"]:
            self.assertEqual(way["rate"], 0.05)
            self.assertEqual([len(curve) for curve in way["curves"]], [3, 3])
            self.assertGreater(min(way["seconds"]), 0)
            for seconds in (*way["seconds"], statistics.median(way["seconds"])):
                self.assertIn(f"{seconds:.3f}", table)
        picture = self.folder / "losses.svg"
        self.python("draw_losses.py", file, file, "-o", picture)
        root = xml.etree.ElementTree.parse(picture).getroot()
        space = "{http://www.w3.org/2000/svg}"
        self.assertEqual(len(root.findall(f"{space}circle")), 2 * 3 * 2)  # panels, ways, seeds
        words = [text.text for text in root.findall(f"{space}text")]
        for name in ("one rank", "fixed", "adaptive"):
            self.assertEqual(words.count(name), 1)
        self.assertLess(picture.stat().st_size, 30000)

    def test_loss_that_no_way_reaches(self):
        file, table = self.race("race.json", "--loss", 1e-6, "--epochs", 1, "--skip", "replicas", "local-sgd", "synchronous",
                                "published", "proportional", "ringmaster", "adaptive")
        self.assertRegex(table, r"fixed +- +- ")
        self.assertEqual(json.loads(file.read_text())["ways"], [])
        self.assertIn("no way reaches", self.python("draw_losses.py", file, expected=1))


if __name__ == "__main__":
    support.main()
