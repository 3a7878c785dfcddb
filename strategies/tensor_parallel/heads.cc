#include "strategies/tensor_parallel/heads.h"

#include <algorithm>

#include "strategies/groups/group_tags.h"

namespace twofold {

HeadShare::HeadShare(const nn::Heads& heads, int rank, int ranks) {
  TWOFOLD_CHECK(heads.queries % ranks == 0, "tensor-parallel ranks share the heads evenly");
  TWOFOLD_CHECK(heads.keys % ranks == 0 || ranks % heads.keys == 0,
                "tensor-parallel ranks share heads of keys, or those share ranks");
  sharers = static_cast<int>(std::max<int64_t>(1, ranks / heads.keys));
  local = {.queries = heads.queries / ranks, .keys = std::max<int64_t>(1, heads.keys / ranks), .width = heads.width};
  first_query = rank * local.queries;
  first_key = rank / sharers * local.keys;
  owns_keys = rank % sharers == 0;
}

std::vector<nn::ShardLayout::Range> HeadShare::ranges(const nn::Heads& heads) const {
  const auto range = [&](int64_t head, int64_t count) {
    return nn::ShardLayout::Range{.first = head * heads.width, .count = count * heads.width};
  };
  nn::ShardLayout::Range queries = range(first_query, local.queries),
                         keys = range(heads.queries + first_key, local.keys),
                         values = range(heads.queries + heads.keys + first_key, local.keys);
  for (nn::ShardLayout::Range* shared : {&keys, &values}) {
    shared->owned = owns_keys;
    if (sharers > 1) shared->holders = kKeyValueTag, shared->partial = true;
  }
  return {queries, keys, values};
}

}  // namespace twofold
