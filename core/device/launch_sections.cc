#include "core/device/launch_sections.h"

#include <utility>

#include "core/base/check.h"

#define XXH_INLINE_ALL
#include "xxhash.h"

namespace twofold {

LaunchSections::Decision LaunchSections::Close() {
  const std::vector<ops::OpIdentity> section = std::exchange(open_, {});
  open_.reserve(section.size());
  if (section.size() < kLeast) return {Do::kLaunch, -1, {}};
  std::vector<uint64_t> places, values;
  for (const ops::OpIdentity& op : section) {
    places.insert(places.end(), {op.place[0], op.place[1]});
    values.push_back(op.values);
  }
  const XXH128_hash_t hash = XXH3_128bits(places.data(), places.size() * sizeof(uint64_t));
  const Key key = {hash.high64, hash.low64};
  const auto [found, is_new] = known_.try_emplace(key, kSeenOnce);
  if (found->second == kSeenOnce) ++settling_;
  if (is_new) {
    if (++seen_once_ > kMostSeenOnce) {  // data that differ in shape each time must not fill the host's memory
      absl::erase_if(known_, [](const auto& of) { return of.second == kSeenOnce; });
      seen_once_ = 0;
    }
    return {Do::kLaunch, -1, {}};
  }
  if (found->second == kNever) return {Do::kLaunch, -1, {}};
  if (found->second == kSeenOnce) {
    --seen_once_;
    if (graphs_.size() == kMostGraphs) {
      found->second = kNever;
      return {Do::kLaunch, -1, {}};
    }
    found->second = graphs();
    graphs_.push_back({key, std::move(values)});
    return {Do::kCapture, found->second, {}};
  }
  Decision decision{Do::kReplay, found->second, {}};
  std::vector<uint64_t>& before = graphs_[static_cast<size_t>(decision.graph)].values;
  TWOFOLD_CHECK_EQ(before.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] != before[i]) decision.changed.push_back(i);
  }
  before = std::move(values);
  return decision;
}

void LaunchSections::Abandon(int64_t graph) { known_[graphs_[static_cast<size_t>(graph)].key] = kNever; }

}  // namespace twofold
