#!/usr/bin/env bash
# fresh_debian.sh [--root=FOLDER] [--ccache=FOLDER] [bookworm|trixie] [COMMAND]: makes a minimal Debian 12 or 13 with git and
# nothing else, clones HEAD of this tree into its /src/project, and runs COMMAND ('./dev train') there, as on a machine that has
# just been installed. The status is that of COMMAND. As root, on a machine that reaches a mirror of Debian.
#
#   tests/install/fresh_debian.sh trixie './dev test'
#
# Without --root the Debian is made anew, and removed at the end. FOLDER stays: what is there is used again, and its clone gets
# the commits that it lacks. --ccache: compiles with ccache, whose files are in FOLDER, and so are known to the next Debian of
# that release.
set -euo pipefail

# shellcheck source=tests/install/debian_root.sh
. "$(dirname "${BASH_SOURCE[0]}")/debian_root.sh"

clone_head() {
  local project=$root/src/project
  mkdir -p "$root/src"
  if [ -e "$project" ]; then
    git -C "$project" fetch --quiet "$top" HEAD
    git -C "$project" checkout --quiet --detach FETCH_HEAD
  else
    git clone --quiet "$top" "$project"
  fi
}

# run_inside COMMAND: in the Debian, with none of this machine's variables, in mounts and processes of its own that end with
# it.
run_inside() {
  # shellcheck disable=SC2016
  unshare --mount --propagation private --pid --fork --kill-child bash -ec '
    root=$1 ccache=$2
    mount --bind "$root" "$root"  # tests with network namespaces need a root that is a mount
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    if [ -n "$ccache" ]; then mkdir -p "$root/ccache"; mount --bind "$ccache" "$root/ccache"; fi
    exec chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 TERM="${TERM:-dumb}" \
      DEBIAN_FRONTEND=noninteractive ${ccache:+CCACHE_DIR=/ccache} bash -c "$3"' inside "$root" "$ccache" "$1"
}

suite=bookworm root='' ccache='' kept=''
while [ $# -gt 0 ]; do
  case $1 in
    --root=?*) root=$(realpath -m "${1#*=}") kept=1 ;;
    --ccache=?*) ccache=$(realpath -m "${1#*=}") ;;
    -*) fail "unknown option $1" ;;
    *) break ;;
  esac
  shift
done
case ${1-} in bookworm | trixie) suite=$1 && shift ;; esac
[ $# -le 1 ] || fail "one command, in quotes: '$*'"
command=${1:-./dev train}
[ "$(id -u)" = 0 ] || fail "debootstrap and chroot need root"
top=$(git -C "$(dirname "${BASH_SOURCE[0]}")" rev-parse --show-toplevel)

if [ -z "$root" ]; then
  root=$(mktemp -d -p "${TMPDIR:-/var/tmp}")
  trap 'rm -rf --one-file-system "$root" "$root.log"' EXIT
fi
make_root git
clone_head
if [ -n "$ccache" ]; then
  mkdir -p "$ccache"
  run_inside "command -v ccache >/dev/null || { apt-get -qq update && apt-get -qq install --no-install-recommends ccache; } >/dev/null"
fi
status=0
run_inside "cd /src/project && $command" || status=$?
[ -z "$kept" ] || echo "fresh_debian.sh: $suite is kept in $root"
exit $status
