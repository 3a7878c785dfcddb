#!/bin/bash
# The lab (docs/lab.md): one network from a single process to DDP, FSDP and a study of strong scaling.
#
#     examples/lab/run.sh                  all steps, two to four minutes on two cores
#     examples/lab/run.sh 3 5              only these steps
#     examples/lab/run.sh --full           more epochs and images, more repeats
#     examples/lab/run.sh --short          seconds: a tiny network, to see that everything works
#     examples/lab/run.sh --print          only print the commands
#
# It needs the program, which experiments/quickstart.sh builds, and says how long each step took.
# Variables: TWOFOLD, the program (default: that of build/release, else of another build, else the one in PATH); LAB, a
# folder for results (runs/lab); CIFAR10, the folder with CIFAR-10's data_batch_*.bin (default: made-up images).
set -euo pipefail

size=normal print=false steps=()
for word in "$@"; do
  case $word in
    --short | --full) size=${word#--} ;;
    --print) print=true ;;
    [1-6]) steps+=("$word") ;;
    -h | --help) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit ;;
    *) echo "run.sh: \"$word\": must be a step, 1 to 6, or --short, --full, --print" >&2; exit 2 ;;
  esac
done
[[ ${#steps[@]} -gt 0 ]] || steps=(1 2 3 4 5 6)

here=$(cd "$(dirname "$0")" && pwd)
twofold=${TWOFOLD:-}
for build in "$here"/../../build/{release,*}; do
  [[ -n $twofold || ! -x $build/experiments/program/twofold ]] || twofold=$build/experiments/program/twofold
done
if ! twofold=$(command -v "${twofold:-twofold}") && ! $print; then
  echo "run.sh: there is no program ${TWOFOLD:-twofold}: experiments/quickstart.sh builds it" >&2
  exit 1
fi
build=$(dirname "$twofold")/../..
sampler=$build/examples/lab_sampler
out=${LAB:-runs/lab}
# What step 3 needs is made, or missed, before anything has run.
if ! $print && [[ " ${steps[*]} " == *" 3 "* && ! -x $sampler ]]; then
  if [[ ! -e $build/CMakeCache.txt ]]; then
    echo "run.sh: step 3 needs lab_sampler, which the folder of a build has, and $twofold is in none; for the other steps: run.sh 1 2 4 5 6" >&2
    exit 1
  fi
  cmake --build "$build" --target lab_sampler
fi
$print || mkdir -p "$out"

# What every run of the lab's job gets.
settings=()
repeats=3 most=16
case $size in
  short)
    settings=('--set=model={ cnn { widths: [8] blocks: [1] } }' '--set=data={ synthetic { samples: 160 } }'
      '--set=train.validation={ samples: 32 }' --set=train.epochs=2 --set=train.schedule.warmup_steps=0)
    repeats=1 most=2 ;;
  full)
    settings=('--set=data={ synthetic { samples: 9728 } }' '--set=train.validation={ samples: 512 }' --set=train.epochs=8)
    repeats=5 ;;
esac
[[ -z ${CIFAR10:-} ]] || settings+=("--set=data={ cifar10 { path: \"$CIFAR10\" } }")

say() { printf '\n== %s\n' "$*"; }
show() { printf '$'; printf ' %q' "$@"; printf '\n'; }
# A command of this program, shown as one types it, then run.
run() {
  show twofold "$@"
  $print || "$twofold" "$@"
}
# A training of the lab's job into the folder NAME, and the lines of its summary that matter here.
train() {
  local name=$1
  shift
  show twofold run examples/lab/cnn.textproto "$@" "--out=$out/$name"
  $print || "$twofold" run "$here/cnn.textproto" "${settings[@]}" "$@" --quiet "--out=$out/$name" |
    grep -E '^(lab on|step time|peak memory|loss, first|validation, last)'
}
# The losses of the validations of several runs, side by side.
validations() {
  $print && return
  printf 'validation loss after each epoch (accuracy)\n'
  for name in "$@"; do
    awk -F, -v name="$name" 'NR > 1 { row = row sprintf("  %.3f (%3.0f %%)", $2, 100 * $3) } END { printf "  %-16s%s\n", name, row }' \
      "$out/$name/validation.csv"
  done
}

step_1() {
  say "1. One process"
  train single
}

step_2() {
  say "2. DDP, with a DistributedSampler: two ranks share each batch of 64"
  train ddp --set=parallel.dp=2 --set=train.micro_batch=32
  train ddp-4 --set=parallel.dp=4 --set=train.micro_batch=16
  [[ -d $out/single ]] && validations single ddp ddp-4
  return 0
}

step_3() {
  say "3a. Without set_epoch a rank sees its part of the data alone, in the same batches"
  show lab_sampler
  $print || "$sampler"
  train no-set-epoch --set=parallel.dp=4 --set=train.micro_batch=16 --set=train.set_epoch=false
  say "3b. The wrong batch size: 64 on each of four ranks are 256, and an epoch has a quarter of the steps"
  train wrong-batch --set=parallel.dp=4 --set=train.micro_batch=64 --set=train.global_batch=256
  if ! $print; then
    [[ -d $out/ddp-4 ]] || train ddp-4 --set=parallel.dp=4 --set=train.micro_batch=16
    validations ddp-4 no-set-epoch wrong-batch
  fi
  run report "$out/ddp-4" "$out/wrong-batch"
}

step_4() {
  say "4. FSDP: sharded parameters, gradients and optimizer state, with a wrapping policy and mixed precision"
  local ranks=(--set=parallel.dp=2 --set=train.micro_batch=32)
  train fsdp-f32 "${ranks[@]}" --set=parallel.sharding=FULL_SHARD '--set=parallel.wrap={ module: "basic_block" }'
  train fsdp "${ranks[@]}" --set=parallel.sharding=FULL_SHARD '--set=parallel.wrap={ min_parameters: 10000 }' \
    '--set=train.precision={ parameter: BF16 reduce: BF16 buffer: F32 }'
  [[ -d $out/ddp ]] && validations ddp fsdp-f32 fsdp
  return 0
}

# The values 1, 2, 4, ... up to the argument.
powers() {
  local list=1 n=2
  while ((n <= $1)); do list+=,$n n=$((2 * n)); done
  echo "$list"
}

step_5() {
  local job=("${settings[@]}")
  say "5. Strong scaling: the global batch of 64 stays"
  if [[ $size != short ]] && { $print || [[ ! -e runs/this-machine.profile.textproto ]]; }; then run calibrate; fi
  run sweep "$here/cnn.textproto" ${job[@]+"${job[@]}"} --set=train.epochs=1 --vary=parallel.dp=1,2,4 --scaling=strong \
    --predicted --measured --repeats=$repeats "--out=$out/scaling"
  say "The same with EMULATED ranks: each has a device of its own, and links of 2 Gb/s"
  run sweep "$here/cnn.textproto" ${job[@]+"${job[@]}"} --set=train.epochs=1 --vary=parallel.dp="$(powers $most)" --scaling=strong \
    --predicted --measured --repeats=1 --set=device=EMULATED --set=fabric.in_memory.link_gbps=2 \
    --set=fabric.in_memory.latency_us=50 "--out=$out/scaling-emulated"
  say "Predicted for Alps, to 64 GPUs: ResNet-18, 4,096 images a step"
  run sweep "$here/alps.textproto" --vary=parallel.dp="$(powers 64)" --scaling=strong --predicted "--out=$out/scaling-alps"
}

step_6() {
  say "6. The Slurm script for a cluster, examples/lab/alps.sbatch: these are its job steps"
  START='echo srun' bash "$here/alps.sbatch"
  $print || "$twofold" run "$here/alps.textproto" --check
}

for step in "${steps[@]}"; do
  began=$SECONDS
  "step_$step"
  $print || echo "(step $step took $((SECONDS - began)) s)"
done
