#!/usr/bin/env bash
# arm64.sh [--root=FOLDER] [--jobs=N]: builds for 64-bit Arm with Debian 12's cross compiler, and runs the cases of some ops
# and a training of 20 steps under qemu-user. All happens in a Debian of its own, FOLDER (build/arm64), which is made if it
# is not there. As root, on a machine that reaches a mirror of Debian.
set -euo pipefail
# shellcheck source=tests/install/debian_root.sh
. "$(dirname "${BASH_SOURCE[0]}")/debian_root.sh"
own_mounts "$@"
suite=bookworm root=$PWD/build/arm64 jobs=$(nproc)
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
  install crossbuild-essential-arm64 cmake ninja-build protobuf-compiler qemu-user libeigen3-dev libjs-chart.js nlohmann-json3-dev \
    lib{absl,dnnl,fmt,gmock,gtest,png,protobuf,spdlog,xxhash}-dev:arm64 ocl-icd-opencl-dev:arm64
  touch "$root/.installed"
}

install_tools() {
  cat >"$root/arm64.cmake" <<'EOF'
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
EOF
}

open_root
install_packages
install_tools
mkdir -p "$root/source"
mount --bind "$PWD" "$root/source"
tests=(elementwise_test matmul_test conv_test pool_test batch_norm_test attention_test)
inside cmake -S /source -B /build -G Ninja --toolchain /arm64.cmake -D CMAKE_BUILD_TYPE=Release -D CMAKE_UNITY_BUILD=ON \
  -D BELFRY_CUDA=OFF -D BELFRY_MPI=OFF -D BELFRY_BENCHMARKS=OFF >"$root/configure.log" 2>&1 || fail "$(tail -n 20 "$root/configure.log")"
inside ninja -C /build -j "$jobs" cifar10 language_model "${tests[@]}"
