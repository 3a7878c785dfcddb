#!/usr/bin/env bash
# All that needs a GPU, in one table.
# tests/gpu/run.sh [--build=FOLDER] [--parts=PART,...] [--python=PYTHON] [--json=FILE] [--logs=FOLDER] [--seconds=470]
#
# Without --build: builds the preset release first, which takes its own time. FOLDER is a build folder, or the archive that
# scripts/gpu_bundle.sh made elsewhere: then nothing is built, and neither SimGrid nor Protobuf nor Abseil need be here. Runs in a
# checkout of the same commit.
#
#   tests        every program of tests/gpu, the conformance suite on CUDA buffers
#   nccl         the NCCL fabric, with as many ranks as there are GPUs, 4 at most; from NCCL 2.30 on with 4 on one: the conformance
#                suite, strategies beside the in-memory fabric, ranks that are killed, what it adds to bare calls, nccl-tests' table
#   benchmark    each memory-bound kernel against the bandwidth of a copy; products, attention
#   pytorch      training steps of three models beside PyTorch's (experiments/studies/gpu_speed)
#   memory       what models of 124M to 1B parameters take of the GPU, under many layouts, against its prediction
#   prediction   training steps predicted from a calibration of kernels (experiments/studies/gpu_prediction)
#   sanitizers   compute-sanitizer's memcheck and racecheck over the kernel tests
#
# --parts names some of them, in this order or another. What is not here is skipped by name, with the reason. Each part has a limit, all
# together --seconds, after which the rest is skipped. Of a test program that fails each suite is run by itself, so that one that breaks
# the GPU's context does not hide the others. --logs keeps what every program printed. The exit status is 0 when nothing failed, and 3
# where there is no GPU and all was skipped.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

build= python=python3 json= seconds=470 logs= parts=tests,nccl,benchmark,pytorch,memory,prediction,sanitizers
for argument in "$@"; do
  case "$argument" in
    --build=*) build=${argument#*=} ;;
    --python=*) python=${argument#*=} ;;
    --json=*) json=${argument#*=} ;;
    --seconds=*) seconds=${argument#*=} ;;
    --logs=*) logs=${argument#*=} ;;
    --parts=*) parts=${argument#*=} ;;
    -h | --help)
      sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' tests/gpu/run.sh
      exit 0
      ;;
    *)
      echo "tests/gpu/run.sh: unknown argument \"$argument\"; known: --build=FOLDER, --parts=PART,..., --python=PYTHON, --json=FILE, --logs=FOLDER, --seconds=N" >&2
      exit 2
      ;;
  esac
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
logs=${logs:-$scratch}
mkdir -p "$logs" || exit 2

if [[ -z $build ]]; then
  build=build/release
  cmake --preset release > "$logs/configure.log" || { cat "$logs/configure.log"; exit 1; }
  cmake --build --preset release --target gpu_programs || exit 1
fi
if [[ -f $build ]]; then
  mkdir "$scratch/bundle"
  "$python" -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$build" "$scratch/bundle" || exit 2
  build=$scratch/bundle
fi
[[ -d $build ]] || { echo "tests/gpu/run.sh: $build: no such folder or archive" >&2; exit 2; }
start=$SECONDS

# ---- The table ----

rows=() failed=no
row() {  # CHECK RESULT FIGURE BOUND
  rows+=("$1|$2|$3|$4")
  [[ $2 == FAILED ]] && failed=yes
  printf '%-34s %-8s %s\n' "$1" "$2" "$3" >&2
}

find_program() {
  local at
  for at in "$build/bin/$1" "$build/tests/gpu/$1" "$build/tests/conformance/$1" "$build/tests/benchmarks/$1" "$build/experiments/program/$1"; do
    [[ -x $at ]] && { echo "$at"; return; }
  done
}

# bounded SECONDS LOG COMMAND...: at most so long, and no longer than is left of all. 124: time was over; 125: what was left of all was.
bounded() {
  local limit=$1 log=$2 left=$((seconds - (SECONDS - start)))
  shift 2
  ((left < 5)) && return 125
  timeout --kill-after=5 $((limit < left ? limit : left)) "$@" > "$log" 2>&1
  local status=$?
  (((status == 124 || status == 137) && left < limit)) && return 125
  return $status
}

# why STATUS LOG LIMIT: what went wrong, in a line.
why() {
  case $1 in
    124 | 137) echo "did not finish within $3 s" ;;
    *) echo "exit status $1: $(grep -m1 -E 'FAILED|rror|ERROR' "$2" | cut -c1-90)" ;;
  esac
}

# ---- Parts ----

# What GoogleTest has counted in a log: count PASSED|SKIPPED LOG.
count() { grep -oE "\[  $1 *\] [0-9]+" "$2" | grep -oE '[0-9]+$' | tail -1; }

# A GoogleTest program: [as=LABEL] [partly=yes] gtest NAME LIMIT [ARGUMENT...]. partly: that it is not done in time is no failure.
gtest() {
  local name=$1 limit=$2 label=${as:-$1} program status passed skipped log began=$SECONDS
  shift 2
  program=$(find_program "$name")
  [[ -n $program ]] || { row "$label" skipped "$name is not in $build" ""; return; }
  log=$logs/${label//[^A-Za-z0-9_]/_}.log
  bounded "$limit" "$log" "${with_libraries[@]}" "$program" "$@"
  status=$?
  passed=$(count PASSED "$log") skipped=$(count SKIPPED "$log")
  if ((status == 125)); then
    row "$label" skipped "no time is left" ""
  elif ((status == 0)) && ((${passed:-0} > 0)); then
    row "$label" passed "$passed tests${skipped:+, $skipped skipped} ($((SECONDS - began)) s)" "all"
  elif ((status == 0)); then
    row "$label" skipped "$(grep -m1 -E 'skipped without a GPU' "$log" | cut -c1-90)" ""
  elif [[ -n ${partly-} ]] && ((status == 124 || status == 137)) && ! grep -q '^\[  FAILED' "$log"; then
    row "$label" passed "$(grep -c '^\[       OK' "$log") tests, did not finish within $limit s" "all"
  else
    tail -40 "$log" >&2
    row "$label" FAILED "$(why $status "$log" "$limit")" "all"
    suites "$label" "$program" "$@"
  fi
}

# Each suite of a program by itself: suites LABEL PROGRAM [ARGUMENT...]
suites() {
  local label=$1 suite log status
  shift
  while read -r suite; do
    log=$logs/${label//[^A-Za-z0-9_]/_}.${suite//[^A-Za-z0-9_]/_}.log
    bounded 40 "$log" "${with_libraries[@]}" "$@" --gtest_filter="$suite*"
    status=$?
    ((status == 125)) && { row "  of $label" skipped "no time is left for the suites from $suite on" ""; return; }
    ((status == 0)) || row "  $suite" FAILED "$(why $status "$log" 40)" ""
  done < <("${with_libraries[@]}" "$@" --gtest_list_tests 2> /dev/null | grep -oE '^[A-Za-z0-9_/]+\.')
}

sanitizer() {  # TOOL LIMIT
  local tool=$1 limit=$2 program log=$logs/$1.log status began=$SECONDS
  command -v compute-sanitizer > /dev/null || { row "compute-sanitizer $tool" skipped "compute-sanitizer is not here" ""; return; }
  program=$(find_program gpu_kernels_test)
  [[ -n $program ]] || { row "compute-sanitizer $tool" skipped "gpu_kernels_test is not in $build" ""; return; }
  bounded "$limit" "$log" "${with_libraries[@]}" compute-sanitizer --tool="$tool" --error-exitcode=86 --print-limit=3 "$program"
  status=$?
  case $status in
    0) row "compute-sanitizer $tool" passed "$(grep -oE 'ERROR SUMMARY.*|RACECHECK SUMMARY.*' "$log" | tail -1) ($((SECONDS - began)) s)" "no errors" ;;
    125) row "compute-sanitizer $tool" skipped "no time is left" "" ;;
    124 | 137)
      if grep -qE '=========.*(Invalid|Error:|hazard)' "$log"; then
        row "compute-sanitizer $tool" FAILED "$(grep -m1 -E 'Invalid|Error:|hazard' "$log")" "no errors"
      else
        row "compute-sanitizer $tool" skipped "no errors so far, but did not finish within $limit s: $(grep -c '\[       OK' "$log") tests" "no errors"
      fi ;;
    *) grep '=========' "$log" | head -40 >&2
       row "compute-sanitizer $tool" FAILED "$(grep -m1 -oE 'Invalid.*|Error:.*|Device not supported.*|hazard.*' "$log" | cut -c1-90) ($(why $status "$log" "$limit" | cut -c1-60))" "no errors" ;;
  esac
}

# rows_of WHAT FILE.json: the rows that tests/gpu/WHAT_rows.py makes of it; none at all is a failure.
rows_of() {
  local check result figure bound some=no
  while IFS='|' read -r check result figure bound; do
    row "$check" "$result" "$figure" "$bound"
    some=yes
  done < <([[ -s $2 ]] && "$python" "tests/gpu/$1_rows.py" "$2")
  [[ $some == yes ]] || row "$1" FAILED "it wrote no results" ""
}

benchmark() {
  local program status log=$logs/benchmark.log
  program=$(find_program gpu_kernels_benchmark)
  [[ -n $program ]] || { row "kernels' bandwidth" skipped "gpu_kernels_benchmark is not in $build" ""; return; }
  bounded 150 "$log" "${with_libraries[@]}" "$program" --benchmark_out="$logs/benchmark.json" --benchmark_out_format=json
  status=$?
  ((status == 125)) && { row "kernels' bandwidth" skipped "no time is left" ""; return; }
  ((status == 0)) || { row "kernels' bandwidth" FAILED "$(why $status "$log" 150)" ""; }
  rows_of benchmark "$logs/benchmark.json"
}

pytorch() {
  local model program log status
  program=$(find_program twofold)
  [[ -n $program ]] || { row "beside PyTorch" skipped "twofold is not in $build" ""; return; }
  "$python" -c 'import torch, sys; sys.exit(0 if torch.cuda.is_available() else 1)' 2> /dev/null ||
    { row "beside PyTorch" skipped "$python has no PyTorch that sees a GPU" ""; return; }
  for model in gpt2-124m llama-1b gpt2-1.5b; do
    log=$logs/$model.log
    bounded 150 "$log" "$python" experiments/studies/gpu_speed/run.py --quick --models="$model" --python="$(command -v "$python")" --libraries="$libraries" --json="$logs/$model.json" "$program"
    status=$?
    if [[ -s $logs/$model.json ]]; then
      IFS='|' read -r figure result < <("$python" tests/gpu/speed_row.py "$logs/$model.json")
      row "step beside PyTorch, $model" "$result" "$figure" ">= 1.00"
    elif ((status == 125 || status == 124 || status == 137)); then
      row "step beside PyTorch, $model" skipped "did not finish in time: $(grep -oE '^[A-Z].*: Twofold alone.*' "$log" | tail -1 | cut -c1-110)" ""
    else
      tail -5 "$log" >&2
      row "step beside PyTorch, $model" FAILED "$(why $status "$log" 150)" ">= 1.00"
    fi
  done
}

# Step times predicted from a calibration of kernels, and measured.
prediction() {
  local program log=$logs/prediction.log status
  program=$(find_program twofold)
  [[ -n $program ]] || { row "prediction" skipped "twofold is not in $build" ""; return; }
  bounded 300 "$log" "$python" experiments/studies/gpu_prediction/run.py --json="$logs/prediction.json" "$program"
  status=$?
  if [[ -s $logs/prediction.json ]]; then
    rows_of prediction "$logs/prediction.json"
  elif ((status == 125)); then
    row "prediction" skipped "no time is left" ""
  elif ((status == 124 || status == 137)); then
    row "prediction" skipped "did not finish in time; --parts=prediction --seconds=600 gives it more" ""
  else
    tail -5 "$log" >&2
    row "prediction" FAILED "$(why $status "$log" 300)" ""
  fi
}

# ---- NCCL ----

# on_ranks N LIMIT LOG PROGRAM [ARGUMENT...]: N processes of it, launched by variables; the status of one that fails.
on_ranks() {
  local ranks=$1 limit=$2 log=$3
  shift 3
  bounded "$limit" "$log" "${with_libraries[@]}" env WORLD_SIZE="$ranks" LOCAL_WORLD_SIZE="$ranks" MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + RANDOM % 10000)) \
    TWOFOLD_JOB_TOKEN="run.sh $$ $RANDOM" bash -c 'pids=() status=0
      for ((r = 0; r < WORLD_SIZE; r++)); do RANK=$r LOCAL_RANK=$r "$@" & pids+=($!); done
      for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
      exit $status' on_ranks "$@"
}

nccl_conformance() {  # RANKS
  local program log=$logs/conformance_nccl.log status began=$SECONDS
  program=$(find_program conformance_test)
  [[ -n $program ]] || { row "conformance on nccl" skipped "conformance_test is not in $build" ""; return; }
  on_ranks "$1" 90 "$log" "$program" --fabric=nccl --launched
  status=$?
  case $status in
    0) row "conformance on nccl" passed "$(grep -oE '[0-9]+ tests passed' "$log" | tail -1), worlds of 1 to $1 ranks ($((SECONDS - began)) s)" "all" ;;
    125) row "conformance on nccl" skipped "no time is left" "" ;;
    *) tail -40 "$log" >&2
       row "conformance on nccl" FAILED "$(why $status "$log" 90)" "all" ;;
  esac
}

nccl_overhead() {  # RANKS
  local program log=$logs/nccl_overhead.log status worst
  program=$(find_program nccl_overhead_benchmark)
  [[ -n $program ]] || { row "nccl fabric over bare NCCL" skipped "nccl_overhead_benchmark is not in $build" ""; return; }
  (($1 >= 2)) || { row "nccl fabric over bare NCCL" skipped "needs two ranks: two GPUs, or NCCL 2.30" ""; return; }
  bounded 90 "$log" "${with_libraries[@]}" "$program" "$1"
  status=$?
  case $status in
    0) worst=$(awk '$2 >= 1048576 && $6 > worst { worst = $6; at = $1 " " $2 " B " $3 } END { printf "%.4f %s", worst, at }' "$log")
       if awk -v r="${worst%% *}" 'BEGIN { exit !(r > 0 && r <= 1.02) }'; then status=passed; else status=FAILED; fi
       row "nccl fabric over bare NCCL" "$status" "at worst ${worst%% *} of its time (${worst#* }); $(grep -c . "$log") cases" "<= 1.02 from 1 MiB" ;;
    77) row "nccl fabric over bare NCCL" skipped "$(tail -1 "$log" | cut -c1-90)" "" ;;
    125) row "nccl fabric over bare NCCL" skipped "no time is left" "" ;;
    *) row "nccl fabric over bare NCCL" FAILED "$(why $status "$log" 90)" "<= 1.02 from 1 MiB" ;;
  esac
}

nccl_bench() {  # RANKS
  local program log=$logs/bench_nccl.log status
  program=$(find_program twofold)
  [[ -n $program ]] || { row "bench all_reduce on nccl" skipped "twofold is not in $build" ""; return; }
  on_ranks "$1" 60 "$log" "$program" bench all_reduce --fabric=nccl -b 8 -e 256M -f 8
  status=$?
  if ((status == 125)); then
    row "bench all_reduce on nccl" skipped "no time is left" ""
  elif ((status == 0)) && grep -q 'Out of bounds values : 0 OK' "$log"; then
    row "bench all_reduce on nccl" passed "$(awk '!/^#/ { last = $0 } END { n = split(last, f, " "); print f[1] " B: " f[n - 3] " us, algbw " f[n - 2] ", busbw " f[n - 1] " GB/s" }' "$log")" "0 wrong"
  else
    tail -20 "$log" >&2
    row "bench all_reduce on nccl" FAILED "$(why $status "$log" 60)" "0 wrong"
  fi
}

nccl() {
  local version gpus ranks
  version=$("${with_libraries[@]}" "$python" -c 'import ctypes
version = ctypes.c_int()
ctypes.CDLL("libnccl.so.2").ncclGetVersion(ctypes.byref(version))
print(version.value)' 2> /dev/null)
  [[ -n $version ]] || { row "nccl" skipped "libnccl.so.2 is not here" ""; return; }
  gpus=$(nvidia-smi --list-gpus | wc -l)
  ranks=$((gpus < 4 ? gpus : 4))
  ((version < 23000)) || { ranks=4; export NCCL_MULTI_RANK_GPU_ENABLE=1; }
  row "NCCL" here "$((version / 10000)).$((version / 100 % 100)).$((version % 100)), up to $ranks ranks on $gpus GPUs" ""
  nccl_conformance "$ranks"
  gtest cuda_nccl_strategies_test 90
  gtest cuda_nccl_failures_test 90
  nccl_overhead "$((ranks < 2 ? ranks : 2))"
  nccl_bench "$ranks"
  unset NCCL_MULTI_RANK_GPU_ENABLE
}

# ---- A GPU, and its libraries ----

gpu=$(nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader 2> /dev/null | head -1)
# cuBLASLt, cuDNN and NCCL, where the loader does not find them: those that a PyTorch brings, so that both sides have the same, or a toolkit's.
libraries=$("$python" - 2> /dev/null << 'PYTHON'
import glob, os, site, sys
folders = []
for base in [*sys.path, *site.getsitepackages(), site.getusersitepackages()]:
    folders += glob.glob(os.path.join(base, "nvidia", "*", "lib")) + glob.glob(os.path.join(base, "torch", "lib"))
folders += glob.glob("/usr/local/cuda*/lib64") + glob.glob("/usr/local/cuda*/targets/*/lib")
found = [f for f in folders if any(glob.glob(os.path.join(f, name)) for name in ("libcublasLt.so.*", "libcudnn*.so.*", "libnccl.so.*"))]
print(":".join(dict.fromkeys(found)))
PYTHON
)
# For our programs alone: a PyTorch that found one library here and another in its own folders would not start.
with_libraries=()
[[ -n $libraries ]] && with_libraries=(env "LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$libraries")
if [[ -n $gpu ]]; then row "GPU" "here" "$gpu" ""; else row "GPU" skipped "nvidia-smi finds none" ""; fi

# Most valuable first. Models of full size are part `memory`.
tests() {
  local program
  gtest gpu_kernels_test 120
  gtest cuda_device_test 60
  gtest cuda_errors_test 60
  gtest conformance_test 90 --fabric=in_memory_cuda
  gtest cuda_fabric_test 60
  gtest cuda_strategies_test 90
  for program in "$build"/bin/cuda_*_test "$build"/tests/gpu/cuda_*_test; do  # others that there may be
    program=${program##*/}
    [[ $program == 'cuda_*_test' || $program =~ ^cuda_(device|errors|fabric|strategies|memory|nccl_.*)_test$ ]] || gtest "$program" 60
  done
  gtest cuda_memory_test 60 --gtest_filter=-"$whole_models"
}
whole_models='*WholeModelMemory*:*AsLargeAs*'
memory() { as="memory of whole models" partly=yes gtest cuda_memory_test 120 --gtest_filter="$whole_models"; }
sanitizers() {
  sanitizer memcheck 90
  sanitizer racecheck 90
}

for part in ${parts//,/ }; do
  case $part in
    tests) tests ;;
    nccl | benchmark | pytorch | memory | prediction | sanitizers)
      if [[ -n $gpu ]]; then "$part"; else row "$part" skipped "no GPU" ""; fi ;;
    *) row "$part" FAILED "unknown part; known: tests, nccl, benchmark, pytorch, memory, prediction, sanitizers" "" ;;
  esac
done

# ---- What came of it ----

echo
printf '| %-36s | %-7s | %-70s | %-14s |\n' check result figure bound
printf '|%s|%s|%s|%s|\n' "$(printf -- '-%.0s' {1..38})" "$(printf -- '-%.0s' {1..9})" "$(printf -- '-%.0s' {1..72})" "$(printf -- '-%.0s' {1..16})"
for r in "${rows[@]}"; do
  IFS='|' read -r check result figure bound <<< "$r"
  printf '| %-36s | %-7s | %-70s | %-14s |\n' "$check" "$result" "$figure" "$bound"
done
echo "$((SECONDS - start)) s"
if [[ -n $json ]]; then
  printf '%s\n' "${rows[@]}" | "$python" -c 'import json, sys
print(json.dumps([dict(zip(("check", "result", "figure", "bound"), l.rstrip("\n").split("|"))) for l in sys.stdin], indent=1))' > "$json"
fi
[[ $failed == yes ]] && exit 1
[[ -z $gpu ]] && ! printf '%s\n' "${rows[@]}" | grep -q '|passed|' && exit 3
exit 0
