# Parts of first_run: each is a command with a time limit of its own, a log and a line in the table. Sourced by first_run, which
# sets out (the folder of logs), kit, python and end (of the time, in SECONDS).
# shellcheck shell=bash disable=SC2154 # set there

skipped=77 # as the tests have it: nothing could be tried on this machine

# line NAME STATUS SECONDS WORDS: a line of the table, on the screen and in the file.
line() {
  printf '%-28s %6s %5s s  %s\n' "$1" "$2" "$3" "$4" | tee -a "$out/table.txt"
}

pack_logs() {
  local packed
  packed=$(mktemp)
  tar -C "$out" -czf "$packed" --exclude=./logs.tar.gz . && cat "$packed" >"$out/logs.tar.gz"
  rm -f "$packed"
}

# reason LOG: one line that says why a part failed or was skipped.
reason() {
  local found
  found=$(sed -n 's/^Skipped [0-9]*: //p' "$1" | head -n 1)
  [ -n "$found" ] || found=$(grep -aE '^(Error|ERROR|first_run|FAILED|\[  FAILED)|: error|[Ee]rror:' "$1" | head -n 1)
  [ -n "$found" ] || found=$(grep -av '^ *$' "$1" | tail -n 1)
  cut -c 1-160 <<<"${found//"$kit/"/}"
}

card_answers() {
  timeout -k 2 20 "$kit/bin/list_devices" --devices=gpu:1 >"$out/card.log" 2>&1
}

# part NAME SECONDS COMMAND...: runs COMMAND for at most SECONDS, unless less is left. COMMAND may be a function.
part() {
  local name=$1 limit=$2 began=$SECONDS status=0 words=''
  shift 2
  if [ $((end - SECONDS)) -lt "$limit" ]; then
    line "$name" - 0 "left out: it may take $limit s, and $((end > SECONDS ? end - SECONDS : 0)) s are left"
    return
  fi
  timeout -k 5 "$limit" bash -c '"$@"' part "$@" >"$out/$name.log" 2>&1 </dev/null || status=$?
  case $status in
    0) ;;
    "$skipped") words="skipped: $(reason "$out/$name.log")" ;;
    124 | 137) words="ended after its $limit s" ;;
    *) words=$(reason "$out/$name.log") ;;
  esac
  if [ $status != 0 ] && [ $status != $skipped ] && [ "$has_card" = 1 ]; then
    if card_answers; then words+=' [the card still answers]'; else words+=" [THE CARD DOES NOT ANSWER: $(reason "$out/card.log")]"; fi
  fi
  line "$name" "$status" $((SECONDS - began)) "$words"
  pack_logs
}

# skip WORDS: ends a part that cannot be tried here.
skip() {
  echo "Skipped 1: $*"
  exit $skipped
}

# tool NAME: prints where a tool of NVIDIA's is; fails if it is not there.
tool() {
  command -v "$1" && return
  local found
  for found in /usr/local/cuda*/bin/"$1" /opt/nvidia/*/*/"$1"; do
    [ ! -x "$found" ] || { echo "$found" && return; }
  done
  return 1
}

# shards N PROGRAM ARGUMENTS...: a test program in N processes side by side, each with every Nth case.
shards() {
  local count=$1 shard status worst=$skipped pids=() logs
  shift
  logs=$(mktemp -d)
  for ((shard = 0; shard < count; ++shard)); do
    GTEST_TOTAL_SHARDS=$count GTEST_SHARD_INDEX=$shard "$@" >"$logs/$shard" 2>&1 &
    pids+=($!)
  done
  for ((shard = 0; shard < count; ++shard)); do
    status=0
    wait "${pids[shard]}" || status=$?
    cat "$logs/$shard"
    # A failure counts more than a success, and that more than nothing tested.
    [ $status = $skipped ] || [ "$worst" != $skipped ] && [ $status = 0 ] || worst=$status
  done
  rm -rf "$logs"
  return "$worst"
}

# nvidia_folders: lib folders of the Python's packages of NVIDIA's, separated by colons.
nvidia_folders() {
  [ -n "$python" ] || return 0
  "$python" -c 'import glob, sys
print(":".join(f for path in sys.path if path for f in sorted(glob.glob(path + "/nvidia/*/lib"))))'
}

# with_libraries COMMAND...: for a program that links CUDA's libraries itself, which the loader must then find.
with_libraries() {
  local folders
  folders=$(nvidia_folders)
  LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}${BELFRY_CUDA_PATH:+$BELFRY_CUDA_PATH:}${folders:+$folders:}/usr/local/cuda/lib64" "$@"
}
