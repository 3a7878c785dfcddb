#!/usr/bin/env bash
# Installs what the build and the tests need (Debian 12 packages); with --build, what the build needs. Does nothing, and needs no
# network, when all of it is there.
set -euo pipefail

packages=(
  cmake ninja-build ccache mold g++ pkg-config git python3
  libsimgrid-dev libopenmpi-dev openmpi-bin libasio-dev libgloo-dev libopenblas-pthread-dev libabsl-dev libprotobuf-dev protobuf-compiler libgrpc++-dev protobuf-compiler-grpc libssl-dev openssl
  nlohmann-json3-dev libspdlog-dev libcli11-dev
  libxxhash-dev libxml2-dev libboost-context-dev libmimalloc-dev zlib1g-dev libsqlite3-dev libcpp-httplib-dev pybind11-dev python3-dev
  node-d3 dpkg-dev file
)
for_tests=(
  clang-format-14 libgtest-dev libgmock-dev libbenchmark-dev chromium chromium-driver fonts-dejavu-core slurm-wlm munge python3-torch
  mkdocs mkdocs-material doxygen
)
case "${1-}" in
  "") packages+=("${for_tests[@]}") ;;
  --build) ;;
  *)
    echo "setup: unknown argument \"$1\"; the only one is --build" >&2
    exit 2
    ;;
esac

if ! command -v dpkg-query > /dev/null; then
  echo "setup: this is not a Debian system; install the equivalents of these packages by hand: ${packages[*]}" >&2
  exit 1
fi

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f='${Status}' "$package" 2> /dev/null || true)
  [[ $state == "install ok installed" ]] || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  echo "setup: all packages are already installed" >&2
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo > /dev/null; then
    echo "setup: missing packages: ${missing[*]}" >&2
    echo "setup: installing packages needs root or sudo; ask an administrator to run: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "setup: installing ${missing[*]}" >&2
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
