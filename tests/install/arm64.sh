#!/usr/bin/env bash
# arm64.sh [--root=FOLDER] [--jobs=N]: builds for 64-bit Arm with Debian 12's cross compiler, and runs the cases of some ops
# and a training of 20 steps under qemu-user. All happens in a Debian of its own, FOLDER (build/arm64), which is made if it
# is not there. As root, on a machine that reaches a mirror of Debian.
set -euo pipefail
# shellcheck source=tests/install/debian_root.sh
. "$(dirname "${BASH_SOURCE[0]}")/debian_root.sh"
own_mounts "$@"
suite=bookworm root=$PWD/build/arm64 jobs=$(nproc)
cases='*Conv2D*:*MatMul*:*Pool*:*Softmax*:*LayerNorm*:*BatchNorm*:*Attention*:*Lstm*:*PackedProduct*:SimdMath*-PackedProduct/4.*'
for option; do
  case $option in
    --root=*) root=$(cd "$caller" && realpath -m "${option#*=}") ;;
    --jobs=*) jobs=${option#*=} ;;
    *) fail "unknown option $option" ;;
  esac
done

# The packages of `./dev build`, each for the machine that needs it.
install_packages() {
  [ ! -e "$root/.installed" ] || return 0
  inside dpkg --add-architecture arm64
  inside apt-get -qq update
  install crossbuild-essential-arm64 cmake ninja-build protobuf-compiler file qemu-user libeigen3-dev libjs-chart.js nlohmann-json3-dev \
    lib{absl,dnnl,fmt,gmock,gtest,jpeg,png,protobuf,spdlog,xxhash}-dev:arm64 ocl-icd-opencl-dev:arm64
  touch "$root/.installed"
}

# configure_build: with the cross compiler, and what CMake runs of the build's own by QEMU.
configure_build() {
  cat >"$root/arm64.cmake" <<'EOF'
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
EOF
  inside cmake -S /source -B /build -G Ninja --toolchain /arm64.cmake -D CMAKE_BUILD_TYPE=Release -D CMAKE_UNITY_BUILD=ON \
    -D BELFRY_CUDA=OFF -D BELFRY_MPI=OFF -D BELFRY_BENCHMARKS=OFF >"$root/configure.log" 2>&1 ||
    fail "CMake failed: $(tail -n 20 "$root/configure.log")"
}

# run PROGRAM ARGUMENTS...: shows its result.
run() {
  local log=$root/tmp/run.txt
  inside qemu-aarch64 "$@" >"$log" 2>&1 || fail "$1 ended with status $?: $(tail -n 30 "$log")"
  grep -E '^\[  PASSED|^Test ' "$log" || fail "$1 has no result: $(tail -n 30 "$log")"
}

open_root
install_packages
mkdir -p "$root/source"
mount --bind "$PWD" "$root/source"
configure_build
inside ninja -C /build -j "$jobs" cifar10 language_model ops_test
inside file -L /build/lib/libbelfry.so
make_images 16
run /build/tests/ops_test --gtest_filter="$cases"
run /build/bin/cifar10 --data_dir=/tmp/images --steps=20 --batch_size=8 --threads_per_device=1
run /build/bin/language_model --steps=20 --batch_size=8 --threads_per_device=1
