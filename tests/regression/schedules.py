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
        # A busy machine lets ranks sleep longer, so the fastest of three turns counts.
        turns = [self.rows(program) for _ in range(3)]
        self.assertGreaterEqual(len(turns[0]), 5)
        for number, rows in enumerate(zip(*turns)):
            with self.subTest(rows[0][0]):
                of_bound, of_predicted = (min(float(row[column]) for row in rows) for column in (3, 4))
                self.assertGreater(of_bound, 0.99)  # of (M + G - 1) (f + b)
                self.assertLess(of_bound, 0.7 * MICROBATCHES * RANKS / (MICROBATCHES + RANKS - 1))
                self.assertTrue(0.99 < of_predicted < 1.5, of_predicted)
                events = json.loads((self.folder / f"trace-{number}.json").read_text())["traceEvents"]
                self.assertEqual({event["tid"] for event in events}, set(range(RANKS)))
                self.assertEqual(sum(event["cat"] == "F" for event in events), MICROBATCHES * RANKS)

    def rows(self, program):
        """What the program prints of each schedule: name, seconds, and so on."""
        command = [os.environ.get("PARTITA_MPIEXEC", "mpiexec"), "-n", RANKS, program, f"microbatches={MICROBATCHES}",
                   "batches=2", f"trace={self.folder}/trace"]
        result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return [line.rsplit(maxsplit=4) for line in result.stdout.splitlines()[1:]]


if __name__ == "__main__":
    support.main()
