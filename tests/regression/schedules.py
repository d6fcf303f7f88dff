"""perf/pipeline: the benchmark of schedules keeps four ranks busy at once, and writes traces."""

import json
import os
import subprocess
from pathlib import Path

import support

MICROBATCHES, RANKS = 8, 4


class Schedules(support.RunTest):
    def test_all_overlap(self):
        program = Path(support._app).parent / "partita_pipeline_schedules"
        if not program.exists():
            self.skipTest("built without PARTITA_ENABLE_BENCHMARKS")
        command = [os.environ.get("PARTITA_MPIEXEC", "mpiexec"), "-n", RANKS, program, f"microbatches={MICROBATCHES}",
                   "batches=2", f"trace={self.folder}/trace"]
        result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        rows = [line.rsplit(maxsplit=4) for line in result.stdout.splitlines()[1:]]
        self.assertGreaterEqual(len(rows), 5)
        for number, (name, _, _, of_bound, of_predicted) in enumerate(rows):
            with self.subTest(name):
                self.assertGreater(float(of_bound), 0.99)  # of (M + G - 1) (f + b)
                self.assertLess(float(of_bound), 0.7 * MICROBATCHES * RANKS / (MICROBATCHES + RANKS - 1))
                self.assertTrue(0.99 < float(of_predicted) < 1.5, of_predicted)  # sleeping takes longer under load
                events = json.loads((self.folder / f"trace-{number}.json").read_text())["traceEvents"]
                self.assertEqual({event["tid"] for event in events}, set(range(RANKS)))
                self.assertEqual(sum(event["cat"] == "F" for event in events), MICROBATCHES * RANKS)


if __name__ == "__main__":
    support.main()
