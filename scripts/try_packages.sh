#!/usr/bin/env bash
# Builds the Debian packages and tries them on a bare Debian 12: scripts/try_packages.sh [BUILD_FOLDER]
#
# Needs root and debootstrap: the bare system is a folder that is entered by chroot, with what the packages depend on and nothing of
# the build. In it run `twofold quickstart`, the template project of libtwofold-dev, and the Python module. Prints how long each takes.
# TWOFOLD_MIRROR names another mirror of Debian; KEEP=1 leaves the system's folder, to look into.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${1:-build/packages}
mirror=${TWOFOLD_MIRROR:-http://deb.debian.org/debian}

for program in debootstrap dpkg-shlibdeps chroot; do
  command -v "$program" > /dev/null || { echo "scripts/try_packages.sh: $program is not installed; run: apt-get install debootstrap dpkg-dev" >&2; exit 1; }
done
((EUID == 0)) || { echo "scripts/try_packages.sh: must run as root, as debootstrap and chroot do" >&2; exit 1; }

times=()
# timed NAME COMMAND...
timed() {
  local name=$1 start=$SECONDS
  shift
  printf '\n== %s\n' "$name"
  "$@"
  times+=("$(printf '%-46s %4d s' "$name" $((SECONDS - start)))")
}

build_packages() {
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=16 -DTWOFOLD_CUDA=OFF -DTWOFOLD_TESTS=OFF \
    -DTWOFOLD_BENCHMARKS=OFF -DPython_EXECUTABLE=/usr/bin/python3 > "$build.configure.log" || { cat "$build.configure.log"; return 1; }
  cmake --build "$build" -j "${JOBS:-$(nproc)}" | tail -1
  rm -f "$build"/*.deb
  (cd "$build" && cpack -G DEB)
}

bare_system() {
  root=$(mktemp -d /var/tmp/twofold-packages-XXXXXX)
  trap leave EXIT
  debootstrap --variant=minbase bookworm "$root" "$mirror" > "$root.log" || { tail -20 "$root.log"; return 1; }
  rm -f "$root.log"
  chmod 755 "$root"  # mktemp lets nobody else in
  mount -t proc proc "$root/proc"
  mount -t sysfs -o ro sysfs "$root/sys"  # hwloc asks it for processors
  mount --bind /dev "$root/dev"
  mount --bind /dev/pts "$root/dev/pts"
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  mkdir "$root/packages"
  cp "$build"/*.deb "$root/packages/"
}
leave() {
  umount "$root/proc" "$root/sys" "$root/dev/pts" "$root/dev" 2> /dev/null || true
  [[ ${KEEP-} == 1 ]] && echo "the system: $root" || rm -rf --one-file-system "$root"  # never what is still mounted there
}

inside() { chroot "$root" /usr/bin/env -i HOME=/ PATH=/usr/bin:/usr/sbin:/bin:/sbin LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive sh -euc "$1"; }

# mpirun refuses to run as root.
as_user() { chroot --userspec=user "$root" /usr/bin/env -i HOME=/home/user PATH=/usr/bin:/bin LANG=C.UTF-8 sh -euc "cd /home/user; $1"; }

mkdir -p "$(dirname "$build")"
timed "build the packages" build_packages
timed "a bare Debian 12" bare_system
timed "install twofold" inside 'apt-get update -qq && apt-get install -y -qq --no-install-recommends /packages/twofold_*.deb openmpi-bin > /dev/null && twofold --version && useradd --create-home user'
timed "twofold quickstart" as_user 'twofold quickstart'
timed "install python3-twofold" inside 'apt-get install -y -qq --no-install-recommends /packages/python3-twofold_*.deb > /dev/null'
cat > "$root/tmp/predict.py" << 'PYTHON'
import twofold
print(twofold.predict({"model": {"preset": "gpt2-124m"}, "parallel": {"dp": 8}, "fabric": {"simulated": {"cluster": "dgx-a100", "nodes": 1}}}))
PYTHON
timed "import twofold" as_user 'python3 /tmp/predict.py'
timed "install libtwofold-dev" inside 'apt-get install -y -qq --no-install-recommends /packages/libtwofold-dev_*.deb cmake ninja-build libgtest-dev > /dev/null'
timed "the template project" as_user 'cp -r /usr/share/doc/libtwofold-dev/own-project . && cd own-project && cmake -S . -B build -G Ninja > /dev/null && cmake --build build && ctest --test-dir build --output-on-failure && build/predict_and_measure'

printf '\n'
printf '%s\n' "${times[@]}"
