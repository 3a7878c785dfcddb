#!/usr/bin/env bash
# Collects what tests/gpu/run.sh needs into a folder that can be carried to a machine with a GPU which has neither our sources built nor
# Debian's libraries. scripts/gpu_bundle.sh [BUILD_FOLDER [OUT_FOLDER]]     (build/release, BUILD_FOLDER/gpu_bundle)
#
#   OUT/bin   the programs, without symbols
#   OUT/lib   the shared libraries they need but for those of the C library, the driver, CUDA and cuDNN; programs look there first
#             ($ORIGIN/../lib, cmake/functions.cmake)
#
# The machine needs a checkout of the same commit beside it: tests/gpu/run.sh --build=OUT. Fails where OUT is larger than 64 MiB.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${1:-build/release}
out=${2:-$build/gpu_bundle}
limit_mib=64

programs=("$build"/tests/gpu/*_test "$build/tests/conformance/conformance_test" "$build/tests/benchmarks/gpu_kernels_benchmark"
          "$build/experiments/program/twofold")
for program in "${programs[@]}"; do
  [[ -x $program ]] || { echo "scripts/gpu_bundle.sh: $program is not built: cmake --build $build --target gpu_bundle is right" >&2; exit 1; }
done

rm -rf "$out"
mkdir -p "$out/bin" "$out/lib"
for program in "${programs[@]}"; do
  strip -s -o "$out/bin/${program##*/}" "$program"
done
missing=$(ldd "$out"/bin/* | grep 'not found' | sort -u || true)
[[ -z $missing ]] || { echo "scripts/gpu_bundle.sh: libraries that are not here: $missing" >&2; exit 1; }
ldd "$out"/bin/* | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
  grep -Ev '/(ld-linux|libc|libm|libpthread|libdl|librt|libutil|libresolv|libcuda|libcudart|libcublas|libcublasLt|libcudnn|libnvrtc)[-._a-zA-Z0-9]*\.so' |
  while read -r library; do
    strip -s -o "$out/lib/${library##*/}" "$library" 2>/dev/null || cp -L "$library" "$out/lib/${library##*/}"
  done
size_mib=$(($(du -sk "$out" | cut -f1) / 1024))
echo "$out: ${#programs[@]} programs, $(find "$out/lib" -type f | wc -l) libraries, $size_mib MiB"
((size_mib <= limit_mib)) || { echo "scripts/gpu_bundle.sh: at most $limit_mib MiB is right" >&2; exit 1; }
