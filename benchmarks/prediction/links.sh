#!/usr/bin/env bash
# links.sh [--programs=build/release] [--mpirun=mpirun.openmpi] [--rates='0.4gbit 1gbit 2.5gbit']
#          [--models='cifar_net resnet20'] [--batch_size=64] [--steps=20] [--rounds=7]
# Predicts steps over links of several rates and runs them, in turn: two network namespaces, with a core each, are the
# machines (tests/mpi/network.sh; needs root). In each round, for each rate and model, `prediction --link=measured --real`
# measures the link and what it takes from computing, traces one tower without averaging, predicts the step of two
# processes with a tower each, and then times their steps. Prints medians over the rounds, also of the error, since both
# figures of a round are made within seconds of each other.
declare -A options=([programs]=build/release [mpirun]=mpirun.openmpi [rates]='0.4gbit 1gbit 2.5gbit'
  [models]='cifar_net resnet20' [batch_size]=64 [steps]=20 [rounds]=7)
for argument; do
  option=${argument#--}
  if [[ $argument != --*=* || -z ${options[${option%%=*}]-} ]]; then
    echo "links.sh: $argument is none of --${!options[*]}" >&2
    exit 2
  fi
  options[${option%%=*}]=${option#*=}
done
name=links
here=$(dirname "${BASH_SOURCE[0]}")
source "$here/../../tests/mpi/machines.sh"
source "$here/../../tests/mpi/network.sh"

prediction=$(realpath "${options[programs]}")/benchmarks/prediction
[ -x "$prediction" ] || fail "there is no $prediction; ./dev build makes it"
mpirun=$(command -v "${options[mpirun]}") || fail "there is no ${options[mpirun]}"
library=openmpi
[[ $mpirun != *mpich* ]] || library=mpich

# one RATE MODEL: adds "rate model predicted measured", in ms, to $work/steps.
one() {
  local log=$work/$1_$2.txt
  across "$library=$mpirun" 300 "$prediction" --processes=2 --link=measured "--model=$2" "--real=${options[steps]}" \
    "--batch_size=${options[batch_size]}" >"$log" 2>&1 || fail "prediction ended with status $?" "$log"
  awk -v rate="$1" -v model="$2" '
    $1 == "processes" { delete column; for (i = 1; i <= NF; ++i) column[$i] = i } # one of the parts of the table
    $1 == 2 { for (name in column) value[name] = $column[name] }
    END { if ("real_ms" in value) print rate, model, value["step_ms"], value["real_ms"] }' "$log" >>"$work/steps"
}

table() {
  printf '%-10s%-12s%14s%14s%22s%9s%20s\n' rate model predicted_ms measured_ms '[min .. max]' error '[of the rounds]'
  awk '
    function sorted(key, values,   n, i, j, t) {
      n = split(values[key], list, " ")
      for (i = 2; i <= n; ++i) for (j = i; j > 1 && list[j] + 0 < list[j - 1] + 0; --j) {
        t = list[j]; list[j] = list[j - 1]; list[j - 1] = t
      }
      return n
    }
    function median(key, values,   n) {
      n = sorted(key, values)
      return (list[int((n + 1) / 2)] + list[int(n / 2) + 1]) / 2
    }
    {
      key = sprintf("%-10s%-12s", $1, $2)
      if (!(key in measured)) keys[++count] = key
      predicted[key] = predicted[key] " " $3
      measured[key] = measured[key] " " $4
      errors[key] = errors[key] " " 100 * ($3 / $4 - 1)
    }
    END {
      for (i = 1; i <= count; ++i) {
        key = keys[i]
        p = median(key, predicted)
        m = median(key, measured); least = list[1]; most = list[sorted(key, measured)]
        error = median(key, errors)
        measurements = sprintf("[%.1f .. %.1f]", least, most)
        rounds = sprintf("[%.0f .. %.0f]", list[1], list[sorted(key, errors)])
        printf "%s%14.1f%14.1f%22s%8.1f%%%20s\n", key, p, m, measurements, error, rounds
      }
    }' "$work/steps"
}

make_network
for ((round = 1; round <= options[rounds]; ++round)); do
  for rate in ${options[rates]}; do
    limit_rate "$rate"
    for model in ${options[models]}; do one "$rate" "$model"; done
  done
done
echo "Two machines with a core each, ${options[batch_size]} examples and a thread each, $library;" \
  "${options[rounds]} rounds in turn"
table
