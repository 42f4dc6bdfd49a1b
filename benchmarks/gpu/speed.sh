# The parts of `first_run speed`: the card's own ceilings, training of all models, its kernels, and PyTorch beside it. Sourced
# by first_run.
# shellcheck shell=bash disable=SC2154 # set in first_run

ceilings() {
  [ -n "$python" ] || skip "no python3 here"
  "$python" "$kit/benchmarks/gpu/ceilings.py"
}

# training NAME FLAGS...: figures in $out/bench/NAME.
training() {
  local name=$1
  shift
  mkdir -p "$out/bench/$name"
  "$kit/benchmarks/training" --devices=gpu:1 --rounds=3 --seconds=0.5 --out="$out/bench/$name" "$@"
}

# speed_of_light: the kernels of a step of ResNet-20 under Nsight Compute, launched one by one.
speed_of_light() {
  local profiler
  profiler=$(tool ncu) || skip "no ncu here"
  "$kit/bin/list_devices" --devices=gpu:1 || return
  "$profiler" --section SpeedOfLight --launch-skip 2000 --launch-count 600 --csv --log-file "$out/speed_of_light.csv" \
    "$kit/benchmarks/training" --devices=gpu:1 --model=resnet20 --replay=false --rounds=1 --seconds=0.1
}

# peers SIDES MODELS DTYPE: beside PyTorch. Both use TF32, so that losses agree less closely than on CPUs.
peers() {
  [ -n "$python" ] || skip "no python3 here"
  "$python" -c 'import torch' 2>/dev/null || skip "$python has no PyTorch"
  "$kit/bin/list_devices" --devices=gpu:1 || return
  "$python" "$kit/benchmarks/peers/compare.py" --belfry="$kit/benchmarks/training" --libtorch= --device=cuda --batch_size=512 \
    --sides="$1" --models="$2" --dtype="$3" --rounds=3 --seconds=1 --tolerance=2e-2 --start_seconds=60 --out="$out/bench/$4"
}

models=cifar_net,cifar_net_no_lrn,resnet20,resnet56,mlp,gpt
# shellcheck disable=SC2046 # names of functions
export -f $(compgen -A function)
part ceilings 20 ceilings
for dtype in float32 bfloat16 float16; do
  part "training_$dtype" 40 training "$dtype" --dtype=$dtype --model=$models --trace_table
done
part training_unreplayed 30 training unreplayed --model=cifar_net,resnet20 --replay=false --trace_table
part speed_of_light 60 speed_of_light
part peers_eager 90 peers Belfry,eager cifar_net,resnet56 float32 eager
part peers_eager_bfloat16 60 peers Belfry,eager resnet56,gpt bfloat16 eager_bfloat16
part peers_compiled 120 peers Belfry,compile cifar_net,resnet20 float32 compiled
