#!/usr/bin/env bash
# From nothing to a prediction beside its measurement: experiments/quickstart.sh [--keep-profile]
#
# Installs what is missing, builds `twofold`, and runs `twofold quickstart` (whose --help says what it does). Safe to run again.
# --keep-profile: use the calibration of an earlier run, when there is one.
#
# Where there is no GPU the program is built without CUDA, which would take longer than all the rest. TWOFOLD_CUDA=AUTO (or ON, or OFF:
# cmake/cuda.cmake) in the environment decides otherwise. Tests and benchmarks are left out, with the packages that only they need. A
# build/release that is configured already stays as it is.
#
# Compared: predicted and measured rows of one spec. The prediction is calibrated by `twofold calibrate`: kernels, links and small
# training jobs, none of which is this spec.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

keep=no
case "${1-}" in
  "") ;;
  --keep-profile) keep=yes ;;
  *)
    echo "quickstart.sh: unknown argument \"$1\"; the only one is --keep-profile" >&2
    exit 2
    ;;
esac

profile=runs/this-machine.profile.textproto
cores=$(nproc)

step() { printf '\n== %s\n' "$*"; }

step "install what the build needs"
bash scripts/setup.sh --build
step "build"
cuda=${TWOFOLD_CUDA-} options=()
[[ -e build/release/CMakeCache.txt ]] || options=(-DTWOFOLD_TESTS=OFF -DTWOFOLD_BENCHMARKS=OFF)
if [[ -z $cuda && ! -e build/release/CMakeCache.txt && ! -e /dev/nvidia0 ]] && ! nvidia-smi -L > /dev/null 2>&1; then
  cuda=OFF
  echo "There is no GPU here, so the program is built without CUDA. To add CUDA (needs nvcc, takes some more minutes, runs only on a machine with a GPU):"
  echo "  cmake --preset release -DTWOFOLD_CUDA=AUTO && cmake --build --preset release --target twofold"
fi
mkdir -p build
cmake --preset release "${options[@]}" ${cuda:+"-DTWOFOLD_CUDA=$cuda"} > build/release.configure.log || { cat build/release.configure.log; exit 1; }
cmake --build --preset release -j "${JOBS:-$cores}" --target twofold lab_sampler
twofold=build/release/experiments/program/twofold

if [[ $keep == yes && -f $profile ]]; then
  "$twofold" quickstart --profile="$profile"
else
  "$twofold" quickstart
fi

step "next"
echo "Open runs/quickstart-measured/report.html in a browser: time line, memory and losses of the prediction and of the run on threads."
echo "Then do the lab, docs/lab.md, or ask for your own job, docs/which-strategy.md. Their commands need the program on the PATH:"
echo "  export PATH=$PWD/build/release/experiments/program:\$PATH"
