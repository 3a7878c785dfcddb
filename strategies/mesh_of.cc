#include "strategies/mesh_of.h"

namespace twofold {

MeshShape MeshOf(const spec::Parallel& p) {
  MeshShape shape{.pp = static_cast<int>(p.pp()),
                  .dp = static_cast<int>(p.dp()),
                  .cp = static_cast<int>(p.cp()),
                  .tp = static_cast<int>(p.tp()),
                  .ep = static_cast<int>(p.ep())};
  if (!p.order().empty()) shape.order = *ParseMeshOrder(p.order());
  return shape;
}

}  // namespace twofold
