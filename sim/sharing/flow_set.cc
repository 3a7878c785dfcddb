#include "sim/sharing/flow_set.h"

#include <bit>

#include "sim/sharing/hashes.h"

namespace twofold::sim {

std::pair<uint64_t, uint64_t> HashOf(const FlowSet& flows) {
  SequenceHash hash(flows.flows());
  for (size_t f = 0; f < flows.flows(); ++f) {
    const std::span<const int> links = flows.LinksOf(f);
    hash.Add(links.size() << 32 | static_cast<uint32_t>(flows.parts[f]));
    for (const int link : links) hash.Add(static_cast<uint64_t>(link));
    hash.Add(static_cast<uint64_t>(flows.lots[f]));
    hash.Add(std::bit_cast<uint64_t>(flows.rates[f]));
    hash.Add(std::bit_cast<uint64_t>(flows.bytes[f] / flows.bytes[0]));
  }
  if (flows.twins != nullptr) hash.Add(static_cast<uint64_t>(flows.twins->number));
  return hash.Get();
}

}  // namespace twofold::sim
