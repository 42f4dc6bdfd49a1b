# What slurm.sh and namespaces.sh share; to be sourced. They set `name` before and have a folder `$work` afterwards.
set -uo pipefail
work=$(mktemp -d "${TMPDIR:-/tmp}/belfry_$name.XXXXXX")
chmod 755 "$work"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Killed processes leave the files of Open MPI behind.
export OMPI_MCA_orte_tmpdir_base=$work
# A command that hangs must end, and some ignore every other signal.
limit() {
  timeout -s KILL "$@"
}

# fail TEXT [FILE...]: ends the test, and shows the files.
fail() {
  local file
  echo "FAILED: $1" >&2
  shift
  for file; do
    echo "--- ${file##*/}" >&2
    tail -n 40 "$file" >&2
  done
  exit 1
}

# skip REASON: in the form that ./dev test collects.
skip() {
  echo "Skipped 1: $1"
  exit 77
}

# need COMMAND PACKAGE
need() {
  command -v "$1" >/dev/null || skip "$1 is not installed ($2)"
}

# Flags of every run; two towers, in one process or in two.
training=(--threads_per_device=1 --steps=6 --batch_size=32 --evaluate_every=3 --quiet)
checkpoint=checkpoints/step-00000006.safetensors

# What one process with two towers makes of it.
train_alone() {
  limit 60 "$cifar10" --devices=cpu:2 "${training[@]}" --train_dir="$work/alone" >"$work/alone.txt" 2>&1 ||
    fail "one process ended with status $?" "$work/alone.txt"
}

# expect_same FOLDER WHAT: its checkpoint is that of one process, byte by byte.
expect_same() {
  cmp "$work/alone/$checkpoint" "$1/$checkpoint" || fail "$2: the checkpoint is not that of one process"
  echo "$2: the checkpoint is that of one process"
}

# expect_text FILE TEXT WHAT
expect_text() {
  grep -qF -- "$2" "$1" || fail "$3: the output has no '$2'" "$1"
}

# await SECONDS WHAT COMMAND...: repeats the command until it succeeds; if it never does, the logs are shown.
await() {
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || fail "$what" "$work"/*.txt
    sleep 0.1
  done
}
