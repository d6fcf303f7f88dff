# Completion of partita in bash; made by `partita info --completion bash`.

_partita_commands='train evaluate export info plan bench'

_partita_keys='
run/seed=
run/epochs=
run/steps=
run/log_every=
run/evaluate_every=
run/trace=
run/decisions=
run/timing=
run/watchdog=
run/device_aware_mpi=
run/precision=
run/cluster=
data/kind=
data/path=
data/train_images=
data/train_labels=
data/test_images=
data/test_labels=
data/train_file=
data/test_file=
data/features=
data/labels=
data/vocabulary=
data/sequence=
data/samples=
data/test_samples=
data/classes=
data/image_size=
data/channels=
data/depth=
data/distortion=
data/noise=
data/validation=
data/test_fraction=
data/standardise=
data/crop=
data/flip=
data/prefetch=
network/layers=
network/initialisation=
training/batch=
training/loss=
training/label_smoothing=
optimiser/kind=
optimiser/learning_rate=
optimiser/momentum=
optimiser/nesterov=
optimiser/beta1=
optimiser/beta2=
optimiser/epsilon=
optimiser/weight_decay=
optimiser/clip_norm=
optimiser/schedule=
optimiser/warmup_steps=
optimiser/step_epochs=
optimiser/step_factor=
optimiser/final_fraction=
optimiser/offload=
optimiser/offload_bucket=
optimiser/offload_directory=
strategy/kind=
strategy/stages=
strategy/replicas=
strategy/parts=
strategy/split=
strategy/parts_grid=
strategy/cuts=
strategy/input=
strategy/labels=
strategy/label_init=
strategy/label_pool=
strategy/head_depth=
strategy/head=
strategy/kappa=
strategy/loss=
strategy/temperature=
strategy/match=
strategy/initialisation=
strategy/cut_gain=
strategy/noise=
strategy/mixture=
strategy/reencode=
strategy/label_start=
strategy/exits=
strategy/later_rate=
strategy/later_hold=
strategy/joint_every=
strategy/lookahead=
strategy/refresh=
strategy/reconstruct=
strategy/transport=
strategy/queue=
strategy/cache_directory=
strategy/bucket_kib=
strategy/wire=
strategy/recovery_epochs=
strategy/recovery_rate=
strategy/microbatches=
strategy/schedule=
strategy/limit=
strategy/tie=
strategy/caps=
strategy/every=
strategy/outer=
strategy/outer_rate=
strategy/outer_momentum=
strategy/warmup_steps=
strategy/shared_workers=
strategy/merge=
strategy/rule=
strategy/lower=
strategy/upper=
strategy/lower_shared=
strategy/upper_shared=
strategy/batch_shared=
strategy/factor=
strategy/growth=
strategy/beta=
strategy/rate_cap=
strategy/staleness=
strategy/staleness_bound=
strategy/update=
strategy/slowdown=
strategy/speeds=
strategy/tolerate=
checkpoint/every=
checkpoint/keep=
checkpoint/compression='

_partita_options() {
  case $1 in
    '') echo '-h --help --version' ;;
    'train') echo '-d --directory -r --restart --replay --overwrite -t --time-limit -n --dry-run --ranks -h --help' ;;
    'evaluate') echo '--predictions --overwrite --stages -h --help' ;;
    'export') echo '-o --output --overwrite --stages -h --help' ;;
    'info') echo '--deck --man --completion -h --help' ;;
    'plan calibrate') echo '--from -o --output --overwrite --noise --quick -h --help' ;;
    'plan predict') echo '--cluster --ranks --strategy --stages --parts --mode --scaling --json --overwrite -h --help' ;;
    'plan deck') echo '--cluster --ranks -o --output --allow-local --json --overwrite -h --help' ;;
    'plan schedule') echo '--time-limit --engine --cache --json --overwrite -h --help' ;;
    'plan place') echo '--brute-force -o --output --cluster --ranks --json --overwrite -h --help' ;;
    'plan search') echo '--state --json --overwrite -h --help' ;;
    'bench') echo '--json --overwrite --only --quick -h --help' ;;
  esac
}

_partita_inner() {
  case $1 in
    'plan') echo 'calibrate predict deck schedule place search' ;;
  esac
}

_partita_value() {
  case "$1 $2" in
    'train -d' | 'train --directory') echo 'DIR' ;;
    'train -r' | 'train --restart') echo 'latest|FILE' ;;
    'train --replay') echo 'FILE' ;;
    'train -t' | 'train --time-limit') echo 'HH:MM:SS' ;;
    'train --ranks') echo 'N' ;;
    'evaluate --predictions') echo 'FILE' ;;
    'evaluate --stages') echo 'N' ;;
    'export -o' | 'export --output') echo 'FILE' ;;
    'export --stages') echo 'N' ;;
    'info --completion') echo 'bash' ;;
    'plan calibrate --from') echo 'RUN...' ;;
    'plan calibrate -o' | 'plan calibrate --output') echo 'FILE' ;;
    'plan calibrate --noise') echo 'PERCENT' ;;
    'plan predict --cluster') echo 'FILE' ;;
    'plan predict --ranks') echo 'N,...' ;;
    'plan predict --strategy') echo 'NAME,...' ;;
    'plan predict --stages') echo 'N' ;;
    'plan predict --parts') echo 'N' ;;
    'plan predict --mode') echo 'exact|paper' ;;
    'plan predict --scaling') echo 'strong|weak' ;;
    'plan predict --json') echo 'FILE' ;;
    'plan deck --cluster') echo 'FILE' ;;
    'plan deck --ranks') echo 'N' ;;
    'plan deck -o' | 'plan deck --output') echo 'FILE' ;;
    'plan deck --json') echo 'FILE' ;;
    'plan schedule --time-limit') echo 'HH:MM:SS' ;;
    'plan schedule --engine') echo 'built-in|highs|cbc' ;;
    'plan schedule --cache') echo 'FILE' ;;
    'plan schedule --json') echo 'FILE' ;;
    'plan place -o' | 'plan place --output') echo 'FILE' ;;
    'plan place --cluster') echo 'FILE' ;;
    'plan place --ranks') echo 'N' ;;
    'plan place --json') echo 'FILE' ;;
    'plan search --state') echo 'FILE' ;;
    'plan search --json') echo 'FILE' ;;
    'bench --json') echo 'FILE' ;;
    'bench --only') echo 'NAME' ;;
  esac
}

_partita_operands() {
  case "$1 $2" in
    'train 0') echo 'DECK section/key=value' ;;
    'train '*) echo 'section/key=value' ;;
    'evaluate 0') echo 'RUN' ;;
    'evaluate '*) echo 'section/key=value' ;;
    'export 0') echo 'RUN' ;;
    'info 0') echo 'RUN' ;;
    'plan calibrate '*) echo 'DECK' ;;
    'plan predict 0') echo 'DECK' ;;
    'plan predict '*) echo 'section/key=value' ;;
    'plan deck 0') echo 'DECK' ;;
    'plan deck '*) echo 'section/key=value' ;;
    'plan schedule 0') echo 'FILE' ;;
    'plan place 0') echo 'FILE' ;;
    'plan place '*) echo 'section/key=value' ;;
    'plan search 0') echo 'SPEC' ;;
    'bench '*) echo 'section/key=value' ;;
  esac
}

_partita_values() {
  case $1 in
    run/decisions) echo 'true|false' ;;
    run/timing) echo 'true|false' ;;
    run/device_aware_mpi) echo 'auto|on|off' ;;
    run/precision) echo 'float|bf16|fp16' ;;
    run/cluster) echo 'FILE' ;;
    data/kind) echo 'glyphs|grammar|noise|idx|libsvm|hdf5|text' ;;
    data/path) echo 'FILE' ;;
    data/train_images) echo 'FILE' ;;
    data/train_labels) echo 'FILE' ;;
    data/test_images) echo 'FILE' ;;
    data/test_labels) echo 'FILE' ;;
    data/train_file) echo 'FILE' ;;
    data/test_file) echo 'FILE' ;;
    data/features) echo 'FILE' ;;
    data/labels) echo 'FILE' ;;
    data/vocabulary) echo 'FILE' ;;
    data/standardise) echo 'none|scalar|feature' ;;
    data/flip) echo 'true|false' ;;
    network/initialisation) echo 'he|xavier|lecun|orthogonal' ;;
    training/loss) echo 'cross-entropy|mse' ;;
    optimiser/kind) echo 'sgd|adam|adamw' ;;
    optimiser/nesterov) echo 'true|false' ;;
    optimiser/schedule) echo 'constant|step|cosine' ;;
    optimiser/offload) echo 'none|host|file' ;;
    optimiser/offload_directory) echo 'FILE' ;;
    strategy/kind) echo 'joint|sil|pipeline|local-sgd|hogbatch' ;;
    strategy/split) echo 'filter|channel|grid|spatial' ;;
    strategy/cuts) echo 'flops|memory' ;;
    strategy/input) echo 'free|frozen|relay' ;;
    strategy/labels) echo 'auto|learned|uniform|centred|gaussian|sign|binary|sparse|orthogonal|etf|block' ;;
    strategy/label_init) echo 'auto|learned|uniform|centred|gaussian|sign|binary|sparse|orthogonal|etf|block' ;;
    strategy/loss) echo 'mse|prototype' ;;
    strategy/match) echo 'auto|before|after' ;;
    strategy/initialisation) echo 'cut|he' ;;
    strategy/mixture) echo 'auto|on|off' ;;
    strategy/reencode) echo 'auto|on|off' ;;
    strategy/label_start) echo 'auto|on|off' ;;
    strategy/exits) echo 'none|sum|fitted' ;;
    strategy/later_hold) echo 'auto|on|off' ;;
    strategy/cache_directory) echo 'FILE' ;;
    strategy/wire) echo 'auto|float|bf16|fp16' ;;
    strategy/schedule) echo 'message-driven|1f1b|1f1b-eager|gpipe' ;;
    strategy/tie) echo 'forward-first|backward-first|fifo' ;;
    strategy/caps) echo 'true|false' ;;
    strategy/outer) echo 'average|nesterov' ;;
    strategy/merge) echo 'delta|overwrite|average' ;;
    strategy/rule) echo 'fixed|adaptive|proportional|synchronous' ;;
    strategy/growth) echo 'bounded|free' ;;
    strategy/staleness) echo 'none|scale|ringmaster' ;;
    strategy/update) echo 'relaxed|atomic|plain' ;;
    strategy/tolerate) echo 'true|false' ;;
  esac
}

# The words to offer for $1, a list of alternatives such as 'latest|FILE', that begin with $2.
_partita_offer() {
  local kind words=''
  while IFS= read -r kind; do
    case $kind in
      DECK) _partita_files "$2" '!*.toml' ;;
      RUN | RUN...) _partita_files "$2" '!*.h5' ;;
      FILE) _partita_files "$2" '' ;;
      DIR) _partita_files "$2" '*' ;;
      section/key=value) _partita_override "$2" ;;
      [[:lower:]]*) words+=" $kind" ;;
    esac
  done <<<"${1//|/$'\n'}"
  _partita_add < <(compgen -W "$words" -- "$2")
}

_partita_add() {
  local line
  while IFS= read -r line; do COMPREPLY+=("$line"); done
}

# Folders, and files that the pattern does not leave out.
_partita_files() {
  compopt -o filenames 2>/dev/null
  _partita_add < <({ compgen -d -- "$1"; compgen -f -X "$2" -- "$1"; } | sort -u)
}

_partita_override() {
  if [[ $1 == *=* ]]; then
    _partita_assigned "$1" "$(_partita_values "${1%%=*}")"
  else
    compopt +o filenames -o nospace 2>/dev/null
    _partita_add < <(compgen -W "$_partita_keys" -- "$1")
  fi
}

# The value in $1, 'key=value' or '--option=value'.
_partita_assigned() {
  _partita_offer "$2" "${1#*=}"
  [[ $COMP_WORDBREAKS == *=* ]] || COMPREPLY=("${COMPREPLY[@]/#/${1%%=*}=}")
}

_partita() {
  local IFS=$' \t\n' words=() word glued='' i
  for ((i = 0; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [[ -n $word && ${#words[@]} -gt 0 && ( -n $glued || $word != *[!=:]* ) ]]; then
      words[${#words[@]} - 1]+=$word
    else
      words+=("$word")
    fi
    glued=
    [[ -n $word && $word != *[!=:]* ]] && glued=yes
  done

  local command='' expected='' operands=0 last=$((${#words[@]} - 1))
  for ((i = 1; i < last; i++)); do
    word=${words[i]}
    if [[ -n $expected ]]; then
      expected=
    elif [[ $word == -* ]]; then
      [[ $word == *=* ]] || expected=$(_partita_value "$command" "$word")
    elif [[ -z $command ]]; then
      command=$word
    elif [[ -n $(_partita_inner "$command") ]]; then
      command+=" $word"
    else
      operands=$((operands + 1))
    fi
  done

  local current=${words[last]} kind
  COMPREPLY=()
  if [[ -n $expected ]]; then
    _partita_offer "$expected" "$current"
  elif [[ $current == -*=* ]]; then
    _partita_assigned "$current" "$(_partita_value "$command" "${current%%=*}")"
  elif [[ $current == -* ]]; then
    _partita_add < <(compgen -W "$(_partita_options "$command")" -- "$current")
  elif [[ -z $command ]]; then
    _partita_add < <(compgen -W "$_partita_commands" -- "$current")
  elif [[ -n $(_partita_inner "$command") ]]; then
    _partita_add < <(compgen -W "$(_partita_inner "$command")" -- "$current")
  else
    for kind in $(_partita_operands "$command" "$operands"); do
      _partita_offer "$kind" "$current"
      [[ ${#COMPREPLY[@]} -eq 0 ]] || break # the deck may be left out
    done
  fi
}

complete -F _partita partita
