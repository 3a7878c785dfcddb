#!/usr/bin/env bash
# Builds everything and runs the tests. tests/run.sh [--full]
#
#   release   all tests but those labelled "full" or "fuzz"  (--full: all); with CUDA where nvcc is found, also where quickstart.sh did
#             without (TWOFOLD_CUDA=OFF in the environment: without)
#   asan      tests labelled "unit", which the fuzz tests are too, or "gpu", whose GPU is emulated, and the conformance suite under
#             the address and undefined-behaviour sanitizers (--full: those labelled "forks", too, of which every case is a process)
#   tsan      those labelled "threads" and the suite under the thread sanitizer, but for fabrics whose ranks are processes (it
#             looks into one process) and, unless --full, of fabrics that are variants of another the larger groups (they take it
#             minutes)
#
# The last line says how it went, and one before it names the GPU tests that were skipped, and why; the exit status is 0 when
# everything passed. JOBS sets the number of parallel jobs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

full=no
case "${1-}" in
  "") ;;
  --full) full=yes ;;
  *)
    echo "tests/run.sh: \"$1\": --full or nothing is right" >&2
    exit 2
    ;;
esac
jobs=${JOBS:-$(nproc)}

bash scripts/setup.sh

results=()
failed=no

# run NAME COMMAND...: remembers how it went and how long it took.
run() {
  local name=$1 start=$SECONDS
  shift
  echo "== $name"
  if "$@"; then
    results+=("$name passed ($((SECONDS - start)) s)")
  else
    results+=("$name FAILED ($((SECONDS - start)) s)")
    failed=yes
  fi
}

release() {
  local select=(-LE '^(full|fuzz)$')
  [[ $full == yes ]] && select=()
  cmake --preset release -DTWOFOLD_CUDA="${TWOFOLD_CUDA:-AUTO}" > build/release.configure.log || { cat build/release.configure.log; return 1; }
  cmake --build --preset release -j "$jobs" && ctest --preset release -j "$jobs" "${select[@]}"
}

# The GPU tests that the release build has skipped, and why: a line, or nothing.
skipped_gpu_tests() {
  local folder=build/release/tests/gpu why
  if [[ ! -x $folder/cuda_device_test ]]; then
    echo "not built: the GPU tests, as this build has no CUDA (cmake/cuda.cmake)"
    return
  fi
  why=$("$folder/cuda_device_test" | sed -n 's/^skipped without a GPU: //p' | sed -n 1p)
  [[ -z $why ]] && return
  echo "skipped: $(ctest --preset release -N -L '^gpu$' | sed -n 's/^ *Test *#[0-9]*: //p' | paste -sd ' '), as there is no GPU: $why"
}

# sanitized PRESET LABEL [LEFT_OUT]: the tests with this label, whose targets have their names, and the conformance suite, all
# rows of which are conformance_test's; but not tests with label LEFT_OUT.
sanitized() {
  local preset=$1 label=$2 leave=() log=build/$1.configure.log targets
  [[ -n ${3-} ]] && leave=(-LE "^$3\$")
  cmake --preset "$preset" -DTWOFOLD_BENCHMARKS=OFF > "$log" || { cat "$log"; return 1; }
  mapfile -t targets < <(ctest --preset "$preset" -N -L "^$label\$" -LE '^conformance$' | sed -n 's/^ *Test *#[0-9]*: //p')
  ((${#targets[@]} > 0)) || { echo "no tests are labelled $label" >&2; return 1; }
  cmake --build --preset "$preset" -j "$jobs" --target "${targets[@]}" conformance_test &&
    ctest --preset "$preset" -j "$jobs" -L "^($label|conformance)\$" "${leave[@]}"
}

mkdir -p build
run release release
units='(unit|gpu)'
[[ $full == yes ]] && units='(unit|gpu|forks)'
run asan sanitized asan "$units"
export TSAN_OPTIONS=atexit_sleep_ms=0${TSAN_OPTIONS:+:$TSAN_OPTIONS}  # else every process sleeps a second at its end, and a simulation is one
large='simulated.*_4_ranks:simulated.*_7_ranks:in_memory_point_to_point.*_7_ranks:in_memory_slow_links.*_7_ranks'
large+=':in_memory_cuda.*_3_ranks:in_memory_cuda.*_4_ranks:in_memory_cuda.*_7_ranks'
[[ $full == no ]] && export GTEST_FILTER="-$large"
run tsan sanitized tsan threads processes

echo
skipped_gpu_tests
summary=$(printf '%s, ' "${results[@]}")
echo "tests: ${summary%, }; $SECONDS s in all"
[[ $failed == no ]]
