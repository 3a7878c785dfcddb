#include "core/proto/world_size.h"

namespace twofold {

int64_t WorldSize(const spec::Spec& spec) {
  const spec::Parallel& p = spec.parallel();
  const int64_t servers = spec.train().has_async_sgd() ? spec.train().async_sgd().servers() : 0;
  return p.pp() * p.dp() * p.cp() * p.tp() + servers;
}

}  // namespace twofold
