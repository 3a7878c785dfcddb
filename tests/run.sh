#!/usr/bin/env bash
# Builds everything and runs the tests: the gate. tests/run.sh [--full]
#
#   release   what needs optimised code and nvcc: kernels' numerics, whole trainings, the program, conformance, experiments
#   asan      units, fuzzing, conformance and the emulated GPU, under the address and undefined-behaviour sanitizers
#   tsan      what threads share, under the thread sanitizer: fabrics, the control plane, launch, the simulator
#
# A test's CMakeLists.txt says in which it runs (UNDER); tests/README.md says what runs where and why. --full runs all tests in
# release, long ones too, with 100,000 mutants instead of 5,000, and draws its numbers from the date. JOBS sets the number of parallel
# jobs; TWOFOLD_CUDA=OFF builds release without CUDA, which is else built wherever nvcc is found.
#
# Tests whose ranks are processes may pass on a second try: the summary names them, and more than two fail the gate. The summary
# also says what took how long. Logs and JUnit files stand in build/gate. The exit status is 0 when everything passed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

full=no
case "${1-}" in
  "") ;;
  --full) full=yes ;;
  *)
    echo "tests/run.sh: unknown argument \"$1\"; the only one is --full" >&2
    exit 2
    ;;
esac
jobs=${JOBS:-$(nproc)}
tests_at_once=$((jobs + 1))  # many wait for processes, or for each other's threads
export TSAN_OPTIONS=atexit_sleep_ms=0${TSAN_OPTIONS:+:$TSAN_OPTIONS}  # else every process sleeps a second at its end, and a simulation is one
if [[ $full == yes ]]; then
  export TWOFOLD_TEST_FULL=1 TWOFOLD_TEST_SEED=${TWOFOLD_TEST_SEED:-$(date +%Y%m%d)}
  echo "seed of this run: TWOFOLD_TEST_SEED=$TWOFOLD_TEST_SEED"
fi

began=$(date +%s)
bash scripts/setup.sh
gate=build/gate
rm -rf "$gate"
mkdir -p "$gate"
printf 'phase,seconds\nset-up,%s\n' "$SECONDS" > "$gate/phases.csv"
failed=no

# phase NAME COMMAND...: remembers how long it took, and whether it failed.
phase() {
  local name=$1 start=$SECONDS status=passed
  shift
  echo "== $name"
  "$@" || { status=FAILED; failed=yes; }
  echo "$name $status,$((SECONDS - start))" >> "$gate/phases.csv"
  [[ $status == passed ]]
}

# build PRESET TARGETS OPTIONS...: configures with the options and builds the targets.
build() {
  local preset=$1 targets=$2 log=$gate/$1.configure.log
  shift 2
  cmake --preset "$preset" "$@" > "$log" || { cat "$log"; return 1; }
  # shellcheck disable=SC2086
  cmake --build --preset "$preset" -j "$jobs" --target $targets > "$gate/$preset.build.log" || { grep -vE '^\[[0-9]+/[0-9]+\] (Building|Linking|Generating)' "$gate/$preset.build.log"; return 1; }
}

# tests PRESET CTEST-SELECTION...
tests() {
  local preset=$1
  shift
  rm -rf "build/$preset/times"
  ctest --preset "$preset" -j "$tests_at_once" "$@" -LE "$leave|processes" --output-junit "$PWD/$gate/$preset.xml" | tee "$gate/$preset.log"
}

# Tests whose ranks are processes have a second try. Most of the time they wait, and so they run beside the next build.
begin_tests_of_processes() {
  local preset=$1 name="$1: tests of processes (beside the next build)"
  shift
  (
    status=passed start=$SECONDS
    ctest --preset "$preset" -j "$tests_at_once" "$@" -L processes -LE "$leave" --repeat until-pass:2 --output-junit "$PWD/$gate/$preset.processes.xml" \
      > "$gate/$preset.processes.log" 2>&1 &
    trap 'kill $! 2> /dev/null' TERM
    wait $! || status=FAILED
    echo "$name $status,$((SECONDS - start))" >> "$gate/phases.csv"
    [[ $status == passed ]]
  ) &
  beside=$! beside_log=$gate/$preset.processes.log beside_name=$name
}
end_tests_of_processes() {
  [[ -z ${beside-} ]] && return
  wait "$beside" || failed=yes
  echo "== $beside_name"
  cat "$beside_log"
  beside=
}
trap '[[ -z ${beside-} ]] || kill "$beside" 2> /dev/null' EXIT

# The GPU tests that the release build has skipped, and why: a line, or nothing.
skipped_gpu_tests() {
  local folder=build/release/tests/gpu why
  if [[ ! -x $folder/cuda_device_test ]]; then
    echo "The GPU tests were not built, because this build has no CUDA (cmake/cuda.cmake)"
    return
  fi
  why=$("$folder/cuda_device_test" | sed -n 's/^skipped without a GPU: //p' | sed -n 1p)
  [[ -z $why ]] && return
  echo "skipped: $(ctest --preset release -N -L '^gpu$' | sed -n 's/^ *Test *#[0-9]*: //p' | paste -sd ' '), because there is no GPU: $why"
}

phase format scripts/format.sh --check || true

release=(-L '^release$') leave='^full$' targets="all tests_release" architectures=90a
[[ $full == yes ]] && release=() leave='^none$' targets="all tests_all" architectures="80;90"
phase "release: build" build release "$targets" -DTWOFOLD_TESTS=ON -DTWOFOLD_BENCHMARKS=ON "-DTWOFOLD_CUDA=${TWOFOLD_CUDA:-AUTO}" "-DCMAKE_CUDA_ARCHITECTURES=$architectures" &&
  { phase "release: tests" tests release "${release[@]}" || true; begin_tests_of_processes release "${release[@]}"; } || true

# These checks of the undefined-behaviour sanitizer take more than a third of the compilers' time. The address sanitizer sees reads
# through bad pointers as well; misaligned reads and wrong dynamic types are looked for by --full alone.
sanitized=asan left_out=null,alignment,vptr,object-size,pointer-overflow,nonnull-attribute,returns-nonnull-attribute,builtin
[[ $full == yes ]] && sanitized='(asan|forks)' left_out=
leave='^full$'
phase "asan: build" build asan "tests_asan$([[ $full == yes ]] && echo ' simulated_failures_test')" -DTWOFOLD_BENCHMARKS=OFF "-DTWOFOLD_SANITIZE_NOT=$left_out" && built=yes || built=no
end_tests_of_processes
[[ $built == yes ]] && { phase "asan: tests" tests asan -L "^$sanitized\$" || true; begin_tests_of_processes asan -L "^$sanitized\$"; }

# Of the fabrics that are variants of another, the larger groups take the thread sanitizer minutes.
large='simulated.*_4_ranks:simulated.*_7_ranks:in_memory_point_to_point.*_7_ranks:in_memory_slow_links.*_7_ranks'
large+=':in_memory_cuda.*_3_ranks:in_memory_cuda.*_4_ranks:in_memory_cuda.*_7_ranks'
[[ $full == no ]] && export GTEST_FILTER="-$large"
phase "tsan: build" build tsan tests_tsan -DTWOFOLD_BENCHMARKS=OFF && built=yes || built=no
end_tests_of_processes
[[ $built == yes ]] && { phase "tsan: tests" tests tsan -L '^tsan$' || true; }
unset GTEST_FILTER

echo
skipped_gpu_tests
python3 tests/summary.py --since "$began" "$gate" || failed=yes
[[ $failed == no ]]
