# Functions of the scripts here that work in a bare Debian of their own. They need root, and a machine that reaches a mirror of
# Debian. Callers set suite (bookworm, ...) and root, the folder of that Debian.
# shellcheck shell=bash disable=SC2034,SC2119,SC2120,SC2154
fail() {
  echo "$(basename "$0"): $*" >&2
  exit 1
}

# own_mounts ARGUMENTS...: starts the script again where its mounts are its own, so that none is left when it ends. Then goes
# to the top of the tree; $caller is the folder before.
own_mounts() {
  [ "$(id -u)" = 0 ] || fail "debootstrap and chroot need root"
  [ -n "${BELFRY_OWN_MOUNTS-}" ] || BELFRY_OWN_MOUNTS=1 exec unshare --mount --propagation private "$0" "$@"
  caller=$PWD
  cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit
}

# inside COMMAND...: in the root, with none of this machine's variables.
inside() { chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
  DEBIAN_FRONTEND=noninteractive "$@"; }

# make_root PACKAGES...: the Debian in $root, if it is not there, with the mirror and the settings of this machine's apt.
make_root() {
  local mirror
  if [ ! -e "$root/.made" ]; then
    command -v debootstrap >/dev/null || fail "apt-get install debootstrap"
    # One of the two places is enough. Other repositories may stand there, too.
    mirror=$({ cat /etc/apt/sources.list.d/*.sources /etc/apt/sources.list 2>/dev/null || true; } |
      sed -n 's/^URIs: *\([^ ]*\).*/\1/p; s/^deb \(\[[^]]*\] \)\?\([^ ]*\) .*/\2/p' |
      grep -m 1 '/debian/\?$' || true)
    echo "$(basename "$0"): making $suite in $root"
    debootstrap --variant=minbase --include="$(IFS=, && echo "ca-certificates${*:+,$*}")" "$suite" "$root" \
      ${mirror:+"$mirror"} >"$root.log" 2>&1 || fail "debootstrap failed: $(tail -n 3 "$root.log")"
    { grep -lZ '^Acquire' /etc/apt/apt.conf.d/* 2>/dev/null || true; } | xargs -0r cp -t "$root/etc/apt/apt.conf.d"
    rm "$root.log"
    touch "$root/.made"
  fi
  cp /etc/resolv.conf /etc/hosts "$root/etc/"
}

# The same with no other packages, and what `inside` needs.
open_root() {
  make_root
  mount -t proc proc "$root/proc"
}

# install OPTIONS AND PACKAGES...
install() {
  local log=$root/tmp/install.txt
  inside apt-get -qq -o Dpkg::Use-Pty=0 install --no-install-recommends "$@" >"$log" 2>&1 ||
    fail "apt-get cannot install $*: $(cat "$log")"
}

# make_images N: the same image of class 0, N times a file, in CIFAR-10's format in /tmp/images. Few, since an evaluation
# takes all of the last.
make_images() {
  local file image=$root/tmp/image
  mkdir -p "$root/tmp/images"
  { printf '\0' && head -c 3072 dev; } >"$image"
  for file in data_batch_{1..5} test_batch; do
    for ((i = 0; i < $1; ++i)); do echo "$image"; done | xargs cat >"$root/tmp/images/$file.bin"
  done
}
