#!/usr/bin/env bash
# Formats all C++ and CUDA sources with .clang-format. scripts/format.sh [--check]
#
# --check changes nothing: it names the files that are formatted differently, and fails if there are any.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case "${1-}" in
  "") arguments=(-i) ;;
  --check) arguments=(--dry-run -Werror -ferror-limit=1) ;;
  *)
    echo "scripts/format.sh: unknown argument \"$1\"; the only one is --check" >&2
    exit 2
    ;;
esac
# Other versions format some lines differently.
if ! command -v clang-format-14 > /dev/null; then
  echo "scripts/format.sh: clang-format-14 is not installed; run scripts/setup.sh" >&2
  exit 1
fi
git ls-files -z --cached --others --exclude-standard -- '*.cc' '*.h' '*.cu' '*.cuh' | xargs -0 -n 40 -P "$(nproc)" clang-format-14 "${arguments[@]}" || {
  echo "scripts/format.sh: these files are not formatted; run scripts/format.sh" >&2
  exit 1
}
