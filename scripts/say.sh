# Prints short lines on the terminal, and everything else to a log.

say() { printf '%s\n' "$*"; }
fail() {
  printf 'bootstrap: %s\n' "$*" >&2
  exit 1
}

# step TEXT COMMAND...: prints one line with the time that COMMAND took. Its output goes to $log, and on failure the end
# of it also to the terminal.
step() {
  local text=$1 begin=$SECONDS status=0
  shift
  printf '%-58s' "$text"
  printf '\n== %s: %s\n' "$text" "$*" >>"$log"
  # A subshell outside of any condition: only there does `set -e` apply inside COMMAND.
  set +e
  (set -e; "$@") >>"$log" 2>&1 </dev/null
  status=$?
  set -e
  if [ "$status" -eq 0 ]; then
    printf '%4d s\n' $((SECONDS - begin))
    return
  fi
  printf 'failed\n'
  tail -n 40 "$log" >&2
  fail "$text failed with status $status; the whole log is $log"
}
