#!/usr/bin/env bash
# first_run_test.sh ROOT: benchmarks/gpu/first_run with a kit of shell scripts, on a machine whose C++ library is too old and
# whose card does not answer for long.
set -euo pipefail
root=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

die() {
  echo "first_run_test.sh: $*" >&2
  exit 1
}

# put FILE: an executable file, from standard input.
put() {
  mkdir -p "$(dirname "$scratch/$1")"
  cat >"$scratch/$1"
  chmod +x "$scratch/$1"
}

# expect PATTERN FILE: FILE has a line that matches.
expect() {
  grep -qE -- "$1" "$2" || { cat "$2" >&2 && die "no line is like $1"; }
}

cp -r "$root/benchmarks/gpu" "$scratch/gpu"
mkdir -p "$scratch/kit/lib"
touch "$scratch/kit/lib/libbelfry_cuda.so"
echo 'commit none' >"$scratch/kit/manifest.txt"
put kit/bin/list_devices <<EOF
#!/bin/sh
[ "\$LD_LIBRARY_PATH" = $scratch/kit/lib/compiler ] || { echo 'libstdc++.so.6: GLIBCXX_3.4.30 not found' && exit 127; }
[ "\$1" != --devices=gpu:1 ] || [ ! -e $scratch/lost ] || { echo 'Error: the card has fallen off the bus' && exit 1; }
echo devices
EOF
put kit/tests/case <<'EOF'
#!/bin/sh
echo "shard $GTEST_SHARD_INDEX of $GTEST_TOTAL_SHARDS"
case $1 in
skipping) echo 'Skipped 3: no such card' && exit 77 ;;
failing) [ "$GTEST_SHARD_INDEX" != 1 ] || { echo '[  FAILED  ] Case.Two' && exit 1; } ;;
esac
EOF
put gpu/correctness.sh <<EOF
lose() { touch $scratch/lost && echo 'Error: illegal access' && exit 3; }
export -f lose skip shards
part passes 5 echo fine
part fails 5 sh -c 'echo "Error: something is wrong"; exit 4'
part is_skipped 5 skip 'no such tool'
part hangs 1 sleep 30
part shards_pass 5 shards 3 "\$kit/tests/case" passing
part shards_skip 5 shards 3 "\$kit/tests/case" skipping
part shards_fail 5 shards 3 "\$kit/tests/case" failing
part too_long 1000 echo never
part loses_the_card 5 lose
part goes_on 5 echo still
EOF
unset LD_LIBRARY_PATH
status=0
"$scratch/gpu/first_run" correctness --kit="$scratch/kit" --seconds=60 --out="$scratch/out" >"$scratch/said" 2>&1 || status=$?
[ $status = 1 ] || { cat "$scratch/said" >&2 && die "the status is $status"; }
table=$scratch/out/table.txt
expect '^passes +0 ' "$table"
expect '^fails +4 +[0-9]+ s  Error: something is wrong \[the card still answers\]' "$table"
expect '^is_skipped +77 .*skipped: no such tool' "$table"
expect '^hangs +(124|137) +[1-6] s  ended after its 1 s' "$table"
expect '^shards_pass +0 ' "$table"
expect '^shards_skip +77 .*skipped: no such card' "$table"
expect '^shards_fail +1 .*FAILED  \] Case.Two' "$table"
expect 'shard 2 of 3' "$scratch/out/shards_fail.log"
expect '^too_long +- .*left out: it may take 1000 s' "$table"
expect '^loses_the_card +3 .*THE CARD DOES NOT ANSWER: Error: the card has fallen off the bus' "$table"
expect '^goes_on +0 ' "$table"
expect '^4 of 10 parts failed' "$scratch/said"
expect 'commit none' "$scratch/out/machine.log"
tar -tzf "$scratch/out/logs.tar.gz" >"$scratch/packed"
for file in table.txt machine.log goes_on.log; do expect "^\./$file\$" "$scratch/packed"; done

# A kit as an archive, and arguments that are wrong.
mkdir "$scratch/packing"
cp -r "$scratch/kit" "$scratch/packing/belfry_gpu_kit"
tar -C "$scratch/packing" -cf "$scratch/kit.tar" belfry_gpu_kit
python3 -c 'import lzma, sys; sys.stdout.buffer.write(lzma.compress(sys.stdin.buffer.read()))' <"$scratch/kit.tar" >"$scratch/kit.tar.xz"
echo 'part passes 5 echo fine' >"$scratch/gpu/correctness.sh"
rm "$scratch/lost"
export LD_LIBRARY_PATH=$scratch/kit/lib/compiler
"$scratch/gpu/first_run" correctness --kit="$scratch/kit.tar.xz" --out="$scratch/out" >"$scratch/said" 2>&1 ||
  { cat "$scratch/said" >&2 && die "an archive is not taken"; }
expect '^0 of 1 parts failed' "$scratch/said"
for wrong in '' 'correctness --second=1' 'correctness --seconds=soon' 'correctness --kit=/nowhere'; do
  status=0
  # shellcheck disable=SC2086 # words
  "$scratch/gpu/first_run" $wrong >"$scratch/said" 2>&1 || status=$?
  [ $status = 2 ] || die "first_run $wrong: status $status"
done
expect 'there is no kit at /nowhere' "$scratch/said"
