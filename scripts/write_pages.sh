#!/usr/bin/env bash
# Writes the pages that are generated from the program's own tables; a test compares them with the program.
# usage: write_pages.sh PROGRAM
set -euo pipefail
program=$(realpath "${1:?which partita? For example build/openmp/bin/partita}")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
"$program" info --deck >docs/deck-reference.md
"$program" info --man >docs/man/partita.1
"$program" info --completion bash >completions/partita.bash
