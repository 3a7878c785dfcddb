#!/usr/bin/env bash
# All that needs a GPU, in one table. tests/gpu/run.sh [--build=FOLDER] [--python=PYTHON] [--json=FILE] [--seconds=470]
#
# Without --build: builds the preset release first, which takes its own time. FOLDER is a build folder, or the archive that
# scripts/gpu_bundle.sh made elsewhere: then nothing is built, and neither SimGrid nor Protobuf nor Abseil need be here. Runs in a
# checkout of the same commit.
#
#   tests        every program of tests/gpu, the conformance suite on CUDA buffers
#   benchmark    each memory-bound kernel against the bandwidth of a copy; products, attention
#   PyTorch      training steps of three models beside PyTorch's (experiments/gpu_speed)
#   sanitizers   compute-sanitizer's memcheck and racecheck over the kernel tests
#
# What is not here is skipped by name, with the reason. Each part has a limit, all together --seconds, after which the rest is skipped. The
# exit status is 0 when nothing failed, and 3 where there is no GPU and all was skipped.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

build= python=python3 json= seconds=470
for argument in "$@"; do
  case "$argument" in
    --build=*) build=${argument#*=} ;;
    --python=*) python=${argument#*=} ;;
    --json=*) json=${argument#*=} ;;
    --seconds=*) seconds=${argument#*=} ;;
    *)
      echo "tests/gpu/run.sh: \"$argument\": --build=FOLDER, --python=PYTHON, --json=FILE or --seconds=N is right" >&2
      exit 2
      ;;
  esac
done
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

if [[ -z $build ]]; then
  build=build/release
  cmake --preset release > "$logs/configure.log" || { cat "$logs/configure.log"; exit 1; }
  cmake --build --preset release --target gpu_programs || exit 1
fi
if [[ -f $build ]]; then
  mkdir "$logs/bundle"
  "$python" -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$build" "$logs/bundle" || exit 2
  build=$logs/bundle
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
    124 | 137) echo "not done after $3 s" ;;
    *) echo "exit status $1: $(grep -m1 -E 'FAILED|rror|ERROR' "$2" | cut -c1-90)" ;;
  esac
}

# ---- Parts ----

# A GoogleTest program: gtest NAME LIMIT [ARGUMENT...]
gtest() {
  local name=$1 limit=$2 program status passed skipped log=$logs/$1.log began=$SECONDS
  shift 2
  program=$(find_program "$name")
  [[ -n $program ]] || { row "$name" skipped "the program is not in $build" ""; return; }
  bounded "$limit" "$log" "$program" "$@"
  status=$?
  passed=$(grep -oE '\[  PASSED  \] [0-9]+' "$log" | grep -oE '[0-9]+' | tail -1)
  skipped=$(grep -oE '\[  SKIPPED \] [0-9]+' "$log" | grep -oE '[0-9]+' | tail -1)
  if ((status == 125)); then
    row "$name" skipped "no time is left" ""
  elif ((status == 0)) && ((${passed:-0} > 0)); then
    row "$name" passed "$passed tests${skipped:+, $skipped skipped} ($((SECONDS - began)) s)" "all"
  elif ((status == 0)); then
    row "$name" skipped "$(grep -m1 -E 'skipped without a GPU' "$log" | cut -c1-90)" ""
  else
    tail -40 "$log" >&2
    row "$name" FAILED "$(why $status "$log" "$limit")" "all"
  fi
}

sanitizer() {  # TOOL LIMIT
  local tool=$1 limit=$2 program log=$logs/$1.log status began=$SECONDS
  command -v compute-sanitizer > /dev/null || { row "compute-sanitizer $tool" skipped "compute-sanitizer is not here" ""; return; }
  program=$(find_program gpu_kernels_test)
  [[ -n $program ]] || { row "compute-sanitizer $tool" skipped "gpu_kernels_test is not in $build" ""; return; }
  bounded "$limit" "$log" compute-sanitizer --tool="$tool" --error-exitcode=86 --print-limit=3 "$program"
  status=$?
  case $status in
    0) row "compute-sanitizer $tool" passed "$(grep -oE 'ERROR SUMMARY.*|RACECHECK SUMMARY.*' "$log" | tail -1) ($((SECONDS - began)) s)" "no errors" ;;
    125) row "compute-sanitizer $tool" skipped "no time is left" "" ;;
    124 | 137) row "compute-sanitizer $tool" skipped "clean so far, but not done after $limit s: $(grep -c '\[       OK' "$log") tests" "no errors"
               grep -qE '=========.*(Invalid|Error:|hazard)' "$log" && row "compute-sanitizer $tool" FAILED "$(grep -m1 -E 'Invalid|Error:|hazard' "$log")" "no errors" ;;
    *) grep '=========' "$log" | head -40 >&2
       row "compute-sanitizer $tool" FAILED "$(why $status "$log" "$limit")" "no errors" ;;
  esac
}

benchmark() {
  local program status log=$logs/benchmark.log
  program=$(find_program gpu_kernels_benchmark)
  [[ -n $program ]] || { row "kernels' bandwidth" skipped "gpu_kernels_benchmark is not in $build" ""; return; }
  bounded 100 "$log" "$program" --benchmark_out="$logs/benchmark.json" --benchmark_out_format=json
  status=$?
  ((status == 125)) && { row "kernels' bandwidth" skipped "no time is left" ""; return; }
  ((status == 0)) || { row "kernels' bandwidth" FAILED "$(why $status "$log" 100)" ""; return; }
  while IFS='|' read -r check result figure bound; do row "$check" "$result" "$figure" "$bound"; done < <("$python" tests/gpu/benchmark_rows.py "$logs/benchmark.json")
}

pytorch() {
  local model program log status
  program=$(find_program twofold)
  [[ -n $program ]] || { row "beside PyTorch" skipped "twofold is not in $build" ""; return; }
  "$python" -c 'import torch, sys; sys.exit(0 if torch.cuda.is_available() else 1)' 2> /dev/null ||
    { row "beside PyTorch" skipped "$python has no PyTorch that sees a GPU" ""; return; }
  for model in gpt2-124m llama-1b gpt2-1.5b; do
    log=$logs/$model.log
    bounded 150 "$log" "$python" experiments/gpu_speed/run.py --quick --models="$model" --python="$(command -v "$python")" --json="$logs/$model.json" "$program"
    status=$?
    if [[ -s $logs/$model.json ]]; then
      IFS='|' read -r figure result < <("$python" tests/gpu/speed_row.py "$logs/$model.json")
      row "step beside PyTorch, $model" "$result" "$figure" ">= 1.00"
    elif ((status == 125 || status == 124)); then
      row "step beside PyTorch, $model" skipped "no time is left" ""
    else
      tail -5 "$log" >&2
      row "step beside PyTorch, $model" FAILED "$(why $status "$log" 150)" ">= 1.00"
    fi
  done
}

# ---- A GPU, and its libraries ----

gpu=$(nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader 2> /dev/null | head -1)
# cuBLASLt and cuDNN, where the loader does not find them: a toolkit's, or those that a PyTorch brings.
libraries=$("$python" - 2> /dev/null << 'PYTHON'
import glob, os, site, sys
folders = glob.glob("/usr/local/cuda*/lib64") + glob.glob("/usr/local/cuda*/targets/*/lib")
for base in {*site.getsitepackages(), site.getusersitepackages(), *sys.path}:
    folders += glob.glob(os.path.join(base, "nvidia", "*", "lib")) + glob.glob(os.path.join(base, "torch", "lib"))
found = [f for f in folders if glob.glob(os.path.join(f, "libcublasLt.so.*")) or glob.glob(os.path.join(f, "libcudnn*.so.*"))]
print(":".join(dict.fromkeys(found)))
PYTHON
)
[[ -d $build/lib/fallback ]] && libraries+=${libraries:+:}$build/lib/fallback
[[ -n $libraries ]] && export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$libraries
if [[ -n $gpu ]]; then row "GPU" "here" "$gpu" ""; else row "GPU" skipped "nvidia-smi names none" ""; fi

for program in "$build"/bin/cuda_*_test "$build"/tests/gpu/cuda_*_test; do
  [[ -x $program ]] && gtest "${program##*/}" 100
done
gtest gpu_kernels_test 150
gtest conformance_test 100 --fabric=in_memory_cuda
if [[ -n $gpu ]]; then
  benchmark
  pytorch
  sanitizer memcheck 90
  sanitizer racecheck 90
else
  for check in "kernels' bandwidth" "beside PyTorch" "compute-sanitizer memcheck" "compute-sanitizer racecheck"; do row "$check" skipped "no GPU" ""; done
fi

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
