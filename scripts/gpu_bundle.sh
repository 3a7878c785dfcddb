#!/usr/bin/env bash
# Collects what tests/gpu/run.sh needs into one archive that can be carried to a machine with a GPU on which nothing is built and
# neither Debian's libraries nor a compiler need be. scripts/gpu_bundle.sh [BUILD_FOLDER [OUT]]   (build/carried, BUILD_FOLDER/gpu_bundle.tar.xz)
#
#   bin/   the programs, without symbols
#   lib/   the shared libraries they need but for those of the C library, the driver, CUDA and cuDNN; programs look there first
#          ($ORIGIN/../lib, cmake/functions.cmake)
#
# Over there, in a checkout of the same commit: tests/gpu/run.sh --build=gpu_bundle.tar.xz. The C library there must not be older than
# here. Fails where the archive is larger than 64 MiB, or the programs are compiled for this machine's processor alone:
# cmake --preset carried is right.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${1:-build/carried}
archive=${2:-$build/gpu_bundle.tar.xz}
limit_mib=64

if grep -q '^TWOFOLD_NATIVE:BOOL=ON' "$build/CMakeCache.txt"; then
  echo "scripts/gpu_bundle.sh: $build is compiled for this machine's processor only; configure it with -DTWOFOLD_NATIVE=OFF (cmake --preset carried)" >&2
  exit 1
fi

programs=("$build"/tests/gpu/*_test "$build/tests/conformance/conformance_test" "$build/tests/benchmarks/gpu_kernels_benchmark"
          "$build/experiments/program/twofold")
[[ -d $build/backends/nccl ]] && programs+=("$build/tests/benchmarks/nccl_overhead_benchmark")
for program in "${programs[@]}"; do
  [[ -x $program ]] || { echo "scripts/gpu_bundle.sh: $program is not built; run cmake --build $build --target gpu_programs" >&2; exit 1; }
done

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
mkdir -p "$out/bin" "$out/lib"
for program in "${programs[@]}"; do
  strip -s -o "$out/bin/${program##*/}" "$program"
done
missing=$(ldd "$out"/bin/* | grep 'not found' | sort -u || true)
[[ -z $missing ]] || { echo "scripts/gpu_bundle.sh: these libraries were not found: $missing" >&2; exit 1; }
ldd "$out"/bin/* | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
  grep -Ev '/(ld-linux[-_a-z0-9]*|libc|libm|libmvec|libpthread|libdl|librt|libutil|libresolv|libcuda|libcudart|libcublas|libcublasLt|libcudnn[_a-z]*|libnvrtc[-a-z]*)\.so' |
  while read -r library; do
    strip -s -o "$out/lib/${library##*/}" "$library" 2>/dev/null || cp -L "$library" "$out/lib/${library##*/}"
  done
# All that is still found elsewhere is the C library's.
foreign=$(ldd "$out"/bin/* | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u | grep -v "^$out/" |
  grep -Ev '/(libc|libm|libmvec|libpthread|libdl|librt|libutil|libresolv)\.so|/lib(cuda|cudart|cublas|cublasLt|cudnn|nvrtc)' || true)
[[ -z $foreign ]] || { echo "scripts/gpu_bundle.sh: the bundle lacks these libraries: $foreign" >&2; exit 1; }
# Each program holds all kernels: a dictionary larger than one finds them again in the next.
tar -C "$out" -cf - bin lib | xz --lzma2=preset=3,dict=96MiB -T1 > "$archive"
size_mib=$((($(stat -c %s "$archive") + 1048575) / 1048576))
echo "$archive: ${#programs[@]} programs, $(find "$out/lib" -type f | wc -l) libraries, $size_mib MiB"
((size_mib <= limit_mib)) || { echo "scripts/gpu_bundle.sh: $archive must be at most $limit_mib MiB (got $size_mib)" >&2; exit 1; }
