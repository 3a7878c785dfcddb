#include "core/run/rank_context.h"

#include <algorithm>

namespace twofold {

void RankContext::AddNote(std::string note) {
  if (std::find(notes_.begin(), notes_.end(), note) == notes_.end()) notes_.push_back(std::move(note));
}

}  // namespace twofold
