#!/usr/bin/env bash
# readme_test.sh ROOT BUILD: runs the commands of README.md's sh blocks in the order of the page, with the programs of the build
# folder BUILD and a scratch folder for /tmp. Of those that build, test or measure, which would take minutes, it checks that
# the command and its flags exist.
set -euo pipefail
root=$1 build=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$root"

die() {
  echo "README.md: $line: $*" >&2
  exit 1
}

# parses PROGRAM FLAGS...: none of the flags is unknown to the program, or has a value of another type.
parses() {
  local said
  said=$("$@" --help 2>&1) || true
  [[ ($said == *Flags\ from* || $said == *Flags,\ with\ their\ defaults:*) && $said != *ERROR:* ]] || die "$said"
}

# check_dev ARGUMENTS...: of ./dev.
check_dev() {
  local command=$1 option
  ./dev --help | grep -qE "^  $command( |$)" || die "./dev has no command $command"
  shift
  case $command in
    train) parses "$build/bin/cifar10" "$@" ;;
    bench)
      if [[ ${1-} = --peers ]]; then
        for option in "${@:2}"; do
          grep -qF -e "\"${option%%=*}\"" benchmarks/peers/compare.py || die "compare.py has no ${option%%=*}"
        done
      elif [ $# -gt 0 ] && [ -d "$build/benchmarks" ]; then
        parses "$build/benchmarks/$1" "${@:2}"
      fi
      ;;
    build | test | doctor | package) [ $# = 0 ] || die "say in $0 how to check these arguments" ;;
    *) die "say in $0 how to check this command" ;;
  esac
}

lines=$(awk '/^```sh$/ { on = 1; next } /^```/ { on = 0 } on' README.md)
[ "$(wc -l <<<"$lines")" -ge 10 ] || { echo "README.md: fewer than 10 commands found" >&2; exit 1; }
ran=0
while read -r line; do
  command=$(sed -e 's/  *# .*//' -e "s|/tmp/|$scratch/|g" -e "s|\$PWD/build/release|$build|g" <<<"$line")
  read -ra words <<<"$command"
  case $command in
    './dev install '*) command="cmake --install $build --prefix ${words[2]}" ;;
    './dev '*)
      check_dev "${words[@]:1}"
      echo "checked:      $line"
      continue
      ;;
    'mpirun.mpich '*)
      if ! command -v mpirun.mpich >/dev/null || [ ! -e "$build/lib/libbelfry_mpi_mpich.so" ]; then
        echo "no MPI:       $line"
        continue
      fi
      ;;
    'tensorboard '*) # serves until it is stopped
      echo "not run:      $line"
      continue
      ;;
  esac
  eval "$command" >"$scratch/output" 2>&1 </dev/null || die "$(cat "$scratch/output")"
  ran=$((ran + 1))
  echo "ran:          $line"
done <<<"$lines"
echo "$ran commands ran"
