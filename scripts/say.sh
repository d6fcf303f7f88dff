# Short lines on the terminal, everything else in a log.

say() { printf '%s\n' "$*"; }
fail() {
  printf 'bootstrap: %s\n' "$*" >&2
  exit 1
}

# step TEXT COMMAND...: one line with its time; the output goes to $log, and its end to the terminal on failure.
step() {
  local text=$1 begin=$SECONDS status=0
  shift
  printf '%-58s' "$text"
  printf '\n== %s: %s\n' "$text" "$*" >>"$log"
  # A subshell of its own, outside of any condition: only there does `set -e` hold inside COMMAND.
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
