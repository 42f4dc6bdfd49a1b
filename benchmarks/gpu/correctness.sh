# The parts of `first_run correctness`: programs first, then tests from the devices up, then whole trainings, then NVIDIA's
# checkers. Sourced by first_run.
# shellcheck shell=bash disable=SC2154 # set in first_run

programs() {
  cd "$kit/bin" &&
    ./list_devices --devices=gpu:1 &&
    ./linear_regression --devices=gpu:1 --device=/gpu:0 --steps=201
}

# train NAME FLAGS...: 300 steps of the CIFAR-10 network, and their losses in $out/losses/NAME.jsonl.
train() {
  local name=$1
  shift
  rm -f "$out/losses/$name.jsonl"
  echo "--- $name: $*" &&
    "$kit/bin/cifar10" --steps=300 --evaluate_every=100 --batch_size=128 --quiet --metrics_file="$out/losses/$name.jsonl" "$@"
}

# The same training in several ways. Their losses must be close: the average of the last steps within a tenth of the first's,
# and all finite.
trainings() {
  local failed=0
  mkdir -p "$out/losses"
  train default --devices=gpu:1 || return
  train deterministic --devices=gpu:1 --deterministic --tf32=false || failed=1
  train without_graphs --devices=gpu:1 --cuda_graphs=false || failed=1
  train bfloat16 --devices=gpu:1 --dtype=bfloat16 || failed=1
  train two_virtual_gpus --devices=gpu:2 --virtual_gpus=2 || failed=1
  train cpu --devices=cpu:1 --steps=60 || failed=1
  for file in "$out"/losses/*.jsonl; do
    # Its first loss, and the mean over its steps 200 to 299.
    sed -n 's/.*"step":\([0-9]*\),"loss":\([^,]*\),.*/\1 \2/p' "$file" |
      awk -v name="$(basename "$file" .jsonl)" '
        NR == 1 { first = $2 }
        $1 >= 200 { sum += $2; ++count }
        END { print name, first, count ? sum / count : "-" }'
  done | tee "$out/losses/summary.txt"
  awk '
    { first[$1] = $2; late[$1] = $3 }
    function far(a, b, share) { return !(a - b <= share * b && b - a <= share * b) }
    END {
      for (name in first) {
        if (far(first[name], first["default"], 0.02)) { print "Error: the first loss of", name, "differs from that of default"; bad = 1 }
        if (late[name] != "-" && far(late[name], late["default"], 0.1)) { print "Error: the losses of", name, "differ from those of default"; bad = 1 }
      }
      exit bad
    }' "$out/losses/summary.txt" || failed=1
  return $failed
}

# sanitize TOOL FILTER: our own kernels under a tool of compute-sanitizer's; those of libraries are not looked at.
sanitize() {
  local checker
  checker=$(tool compute-sanitizer) || skip "no compute-sanitizer here"
  "$kit/bin/list_devices" --devices=gpu:1 || return
  shards 4 "$checker" --tool "$1" --error-exitcode 1 "$kit/tests/gpu_ops_test" --gtest_filter="$2"
}

# Cases without products and convolutions, which are the libraries'; and those of rows and reductions, whose kernels share
# memory between threads.
own_kernels='-*Conv*:*MatMul*:*Einsum*:*Lstm*:*Gru*'
row_kernels='*Softmax*:*CrossEntropy*:*Norm*:*Moments*:*Sum*:*Max*:*Min*:*Mean*:*Prod*:*Arg*:*Cumsum*:*Top*:*Attention*'

# shellcheck disable=SC2046 # names of functions
export -f $(compgen -A function)
part programs 20 programs
part device_tests 60 "$kit/tests/gpu_device_test"
part training_tests 90 shards 4 "$kit/tests/gpu_training_test"
part collective_tests 60 shards 4 "$kit/tests/gpu_collective_test"
part op_tests 150 shards 8 "$kit/tests/gpu_ops_test"
part library_tests 30 with_libraries "$kit/tests/gpu_library_cores_test"
part trainings 60 trainings
part memcheck 90 sanitize memcheck "$own_kernels"
part racecheck 40 sanitize racecheck "$row_kernels"
