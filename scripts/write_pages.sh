#!/usr/bin/env bash
# Writes the pages that follow from the program's own tables; a test compares them. The argument is the program.
set -euo pipefail
program=$(realpath "${1:?which partita? For example build/openmp/bin/partita}")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
"$program" info --deck >docs/deck-reference.md
"$program" info --man >docs/man/partita.1
"$program" info --completion bash >completions/partita.bash
