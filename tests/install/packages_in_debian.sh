#!/usr/bin/env bash
# packages_in_debian.sh [--suite=bookworm] [--root=FOLDER] [--compare=PROGRAMS [--only=LABELS] [--pairs=N]]: installs the
# packages of `./dev package` in a Debian that has nothing else, and trains there: on this processor, and under qemu-user on
# one of each level of x86-64. The loader must choose the library of that level; at level 1 a program must end with one
# line of error. FOLDER (build/packages_in_debian) is made if it is not there. As root, on a machine that reaches a mirror
# of Debian.
#
# --compare=build/release/bin: measures instead, in turn with the programs there, which `./dev build` made for this machine:
# the medians of N pairs (5) on one thread, and the ratio. LABELS: of those that match this pattern, such as 'resnet20*'.
set -euo pipefail
# shellcheck source=tests/install/debian_root.sh
. "$(dirname "${BASH_SOURCE[0]}")/debian_root.sh"
own_mounts "$@"
suite=bookworm root=$PWD/build/packages_in_debian compare='' only='*' pairs=5
for option; do
  case $option in
    --suite=*) suite=${option#*=} ;;
    --root=*) root=$(cd "$caller" && realpath -m "${option#*=}") ;;
    --compare=*) compare=$(cd "$caller" && realpath "${option#*=}") ;;
    --only=*) only=${option#*=} ;;
    --pairs=*) pairs=${option#*=} ;;
    *) fail "unknown option $option" ;;
  esac
done

# All must be installable; only the library and the programs are, since MPI's packages have some hundred more.
install_packages() {
  local all=() needed=() package
  if sha256sum build/packages/*.deb | cmp -s - "$root/.installed"; then return; fi
  rm -rf "$root/packages"
  cp -r build/packages "$root/packages"
  for package in build/packages/*.deb; do
    package=/packages/${package##*/}
    all+=("$package")
    [[ $package != /packages/@(libbelfry[0-9]*.[0-9]|belfry)_* ]] || needed+=("$package")
  done
  inside apt-get -qq update
  install --simulate "${all[@]}"
  install qemu-user
  install --reinstall "${needed[@]}"
  sha256sum build/packages/*.deb >"$root/.installed"
}

# library COMMAND...: the libbelfry that the loader initialises for it.
library() {
  inside env LD_DEBUG=files "$@" 2>&1 | sed -n 's/.*calling init: \(.*libbelfry\.so[.0-9]*\)$/\1/p'
}

# expect_level LEVEL COMMAND...: that of the library of COMMAND, 2 being the one outside glibc-hwcaps.
expect_level() {
  local level=$1 path
  shift
  path=$(library "$@" --version)
  case $level in
    2) [[ $path = /*/libbelfry.so.* && $path != *glibc-hwcaps* ]] ;;
    *) [[ $path = */glibc-hwcaps/x86-64-v"$level"/libbelfry.so.* ]] ;;
  esac || fail "$*: expected the library of level $level, but the loader took '$path'"
  echo "$path"
}

# train COMMAND...: a few steps must end well.
train() {
  local log=$root/tmp/train.txt
  inside "$@" --steps=4 --batch_size=8 --threads_per_device=1 >"$log" 2>&1 ||
    fail "$* ended with status $?: $(tail -n 5 "$log")"
  grep -h ' after 4 steps' "$log" || fail "$* does not say that it took 4 steps: $(tail -n 5 "$log")"
}

# expect_refusal COMMAND...: one line of error, and status 1.
expect_refusal() {
  local log=$root/tmp/refused.txt status=0
  inside "$@" --version >"$log" 2>&1 || status=$?
  sed -i '/^qemu-x86_64: warning/d' "$log"
  [[ $status = 1 && $(wc -l <"$log") = 1 ]] || fail "$* ended with status $status: $(cat "$log")"
  grep '^belfry: .* needs a processor of level x86-64-v2' "$log" || fail "$* says: $(cat "$log")"
}

# processor LABEL LEVEL [EMULATOR...]
processor() {
  local level=$2 dtype
  echo "$1, of level $level:"
  shift 2
  if [ "$level" = 1 ]; then
    expect_refusal "$@" /usr/bin/cifar10
    return
  fi
  expect_level "$level" "$@" /usr/bin/cifar10
  for dtype in float32 bfloat16; do
    train "$@" /usr/bin/cifar10 --data_dir=/tmp/images --dtype=$dtype
    train "$@" /usr/bin/language_model --dtype=$dtype
  done
}

test_levels() {
  local own
  make_images 16
  own=$(inside /lib64/ld-linux-x86-64.so.2 --help | sed -n 's/^ *x86-64-v\([0-9]\) (supported, searched).*/\1/p' | sort -n | tail -n 1)
  processor "This processor" "${own:-1}"
  # QEMU 7.2 has no AVX-512, so level 4 is that of this machine or none.
  processor Haswell 3 qemu-x86_64 -cpu Haswell
  processor Nehalem 2 qemu-x86_64 -cpu Nehalem
  processor core2duo 1 qemu-x86_64 -cpu core2duo
  processor qemu64 1 qemu-x86_64 -cpu qemu64
}

# rate LOG: images/s or tokens/s that a program says last.
rate() { sed -n 's/.* after [0-9]* steps, \([0-9]*\) [a-z]*\/s\..*/\1/p' "$1" | tail -n 1; }

# quantile K NUMBERS...: the K-th smallest.
quantile() { printf '%s\n' "${@:2}" | sort -n | sed -n "$1p"; }

# compare_with LABEL PROGRAM FLAGS...: in turn; the order of a pair changes with every pair.
compare_with() {
  local label=$1 program=$2 pair log=$root/tmp/rate.txt packaged=() built=() ratios=() side middle=$(((pairs + 1) / 2))
  # shellcheck disable=SC2053
  [[ $label = $only ]] || return 0
  shift 2
  for ((pair = 1; pair <= pairs; ++pair)); do
    for side in $([ $((pair % 2)) = 1 ] && echo packaged built || echo built packaged); do
      if [ "$side" = packaged ]; then
        inside env -C /tmp "$program" --threads_per_device=1 "$@" >"$log" 2>&1 || fail "$program: $(tail -n 3 "$log")"
        packaged+=("$(rate "$log")")
      else
        (cd "$root/tmp" && "$compare/$program" --threads_per_device=1 "$@") >"$log" 2>&1 || fail "$compare/$program: $(tail -n 3 "$log")"
        built+=("$(rate "$log")")
      fi
    done
    ratios+=("$(awk "BEGIN { printf \"%.3f\", ${packaged[-1]} / ${built[-1]} }")")
  done
  printf '%-24s packaged %7s, built %7s, ratio %s [%s .. %s]\n' "$label" "$(quantile "$middle" "${packaged[@]}")" \
    "$(quantile "$middle" "${built[@]}")" "$(quantile "$middle" "${ratios[@]}")" "$(quantile 1 "${ratios[@]}")" \
    "$(quantile "$pairs" "${ratios[@]}")"
}

compare_all() {
  local dtype
  make_images 256
  for dtype in float32 bfloat16; do
    compare_with "cifar_net $dtype" cifar10 --data_dir=images --steps=80 --dtype=$dtype
    compare_with "resnet20 $dtype" cifar10 --data_dir=images --model=resnet20 --steps=30 --dtype=$dtype
    compare_with "language_model $dtype" language_model --steps=60 --sample=0 --dtype=$dtype
  done
}

ls build/packages/*.deb >/dev/null 2>&1 || fail "there are no packages: ./dev package"
open_root
install_packages
if [ -n "$compare" ]; then compare_all; else test_levels; fi
