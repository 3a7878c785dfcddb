// Flows that begin together, and the links that they cross.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace twofold::sim {

// Links of several copies of the same flows (twins.h): for each link of the first copy, those of the others, in order.
struct LinkTwins {
  int64_t number = 0;  // its own, for hashes
  size_t others = 0;   // copies beside the first
  absl::flat_hash_map<int, std::vector<int>> of;
};

// Flows that begin together. Flows with the same lot number (from 0) are waited for together. A flow has more than 0
// bytes, and crosses at least one link or has a limit. With `twins`, they are the first copy's flows, and stand for
// those of all copies; flow f of copy c then has the number c * flows() + f, and each copy has lots of its own.
struct FlowSet {
  std::vector<int> links;            // of all flows, one flow after another
  std::vector<size_t> first = {0};   // flow f crosses links [first[f], first[f + 1])
  std::vector<double> bytes, rates;  // by flow; rates: limits in bytes per second
  std::vector<int> lots;             // by flow
  std::vector<int> parts;            // by flow: it stands for so many equal flows over its links, each with its bytes
  std::shared_ptr<const LinkTwins> twins = nullptr;
  size_t flows() const { return bytes.size(); }  // of one copy
  size_t copies() const { return twins != nullptr ? 1 + twins->others : 1; }
  double BytesOf(size_t flow) const { return bytes[flow % flows()]; }  // by numbers of any copy
  int PartsOf(size_t flow) const { return parts[flow % flows()]; }
  bool empty() const { return bytes.empty(); }
  void Reserve(size_t flows) {
    first.reserve(flows + 1), bytes.reserve(flows), rates.reserve(flows), lots.reserve(flows), parts.reserve(flows);
  }
  void Add(std::span<const int> over, double size, double limit, int lot = 0, int equal = 1) {
    links.insert(links.end(), over.begin(), over.end());
    first.push_back(links.size());
    bytes.push_back(size), rates.push_back(limit), lots.push_back(lot), parts.push_back(equal);
  }
  void Add(const FlowSet& more, int lot) {
    for (size_t f = 0; f < more.flows(); ++f) Add(more.LinksOf(f), more.bytes[f], more.rates[f], lot, more.parts[f]);
  }
  std::span<const int> LinksOf(size_t flow) const {  // of the first copy
    return {links.data() + first[flow], first[flow + 1] - first[flow]};
  }
};

// Equal for flows over the same links, with the same limits and lots, whose bytes are in the same proportions; they
// have the same classes.
std::pair<uint64_t, uint64_t> HashOf(const FlowSet& flows);

}  // namespace twofold::sim
