#!/usr/bin/env bash
# Draws the pictures of this folder again: docs/topologies/draw.sh [PATH_OF_TWOFOLD]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
twofold=$(realpath "${1:-$here/../../build/release/experiments/program/twofold}")
for shape in dragonfly fat-tree torus hamming-mesh; do
  "$twofold" topology show "$here/$shape.textproto" --out="$here/$shape.svg"
done
"$twofold" topology show dgx-h100 --nodes=1 --out="$here/nvswitch-node.svg"
"$twofold" topology show dgx-1v --nodes=1 --out="$here/cube-mesh-node.svg"
"$twofold" topology show alps --out="$here/alps.svg"
"$twofold" topology show dgx-h100 --out="$here/dgx-h100.svg"
