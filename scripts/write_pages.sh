#!/usr/bin/env bash
# Writes the pages that are generated from the program's own tables; a test compares them with the program.
# usage: write_pages.sh PROGRAM
set -euo pipefail
program=$(realpath "${1:?which partita? For example build/openmp/bin/partita}")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# A program that fails leaves the pages as they are.
write() {
  local page=$1
  shift
  "$program" info "$@" >"$page.new" || { rm "$page.new"; exit 1; }
  mv "$page.new" "$page"
}
write docs/deck-reference.md --deck
write docs/man/partita.1 --man
write completions/partita.bash --completion bash
