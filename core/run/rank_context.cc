#include "core/run/rank_context.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/check.h"

namespace twofold {

RankContext::RankContext(Parts parts) : parts_(std::move(parts)), everyone_(parts_.world) {
  if (parts_.member < 0) parts_.member = parts_.rank;
  std::vector<int>& members = parts_.membership.generation.members;
  if (!members.empty()) return;
  members.resize(static_cast<size_t>(parts_.world_size));
  std::iota(members.begin(), members.end(), 0);
}

void RankContext::UseWorld(ProcessGroup* world) {
  parts_.world = world != nullptr ? world : everyone_;
  parts_.rank = parts_.world->rank();
  parts_.world_size = parts_.world->size();
}

void RankContext::Reform(const ReformOptions& options) {
  TWOFOLD_CHECK(CanReform(), "the fabric has generations");
  Parts::Membership::Next next = parts_.membership.reform(options);
  parts_.membership.generation = std::move(next.generation);
  everyone_ = next.everyone;
  UseWorld(nullptr);
}

std::vector<std::string> RankContext::Exchange(std::string bytes) {
  if (parts_.membership.exchange) return parts_.membership.exchange(std::move(bytes));
  TWOFOLD_CHECK_EQ(parts_.world_size, 1);
  return {std::move(bytes)};
}

void RankContext::AddNote(std::string note) {
  if (std::find(notes_.begin(), notes_.end(), note) == notes_.end()) notes_.push_back(std::move(note));
}

}  // namespace twofold
