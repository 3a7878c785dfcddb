#include "backends/simulated/in_flight.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/hash/hash.h"
#include "core/base/strings.h"

namespace twofold {

std::string InFlight::ToString() const {
  const std::string who = done->known() ? "" : missing();
  return who.empty() ? call->ToString() : StrCat(call->ToString(), " (missing: ", who, ")");
}

void CallsInFlight::Add(InFlightPtr call) {
  if (calls_.size() >= sweep_at_) {
    std::erase_if(calls_, [](const InFlightPtr& c) { return c->done->known(); });
    sweep_at_ = std::max<size_t>(64, 2 * calls_.size());
  }
  calls_.push_back(std::move(call));
}

uint64_t CallsInFlight::Fingerprint() const {
  uint64_t hash = 0;
  for (const InFlightPtr& c : calls_) {
    if (c->done->known()) continue;
    const Communication& what = c->call->communication;
    hash = absl::HashOf(hash, *c->call->group, what.kind, what.bytes().value(), what.peer, what.tag);
  }
  return hash;
}

void CallsInFlight::RemoveGroup(const std::string* label) {
  std::erase_if(calls_, [label](const InFlightPtr& c) { return c->call->group.get() == label; });
}

std::string CallsInFlight::FirstOf(const std::string* label) const {
  const auto first = std::find_if(calls_.begin(), calls_.end(), [label](const InFlightPtr& c) {
    return c->call->group.get() == label && !c->done->known();
  });
  return first == calls_.end() ? StrCat("the stream of group ", *label) : (*first)->ToString();
}

std::string CallsInFlight::WaitingFor(const InFlight& call) const {
  const std::string* group = call.call->group.get();
  const std::string self = call.ToString(), others = FirstOfEach(group);
  std::string text = call.done->known() ? self : FirstOf(group);
  if (text != self) StrAppend(&text, ", before ", call.call->ToString());
  if (!others.empty()) StrAppend(&text, ", with ", others, " in flight");
  return text;
}

std::string CallsInFlight::FirstOfEach(const std::string* but) const {
  std::string text;
  std::set<const std::string*> told = {but};  // for lookup only, so its order does not matter
  for (const InFlightPtr& c : calls_) {
    if (c->done->known() || !told.insert(c->call->group.get()).second) continue;
    StrAppend(&text, text.empty() ? "" : " and ", c->ToString());
  }
  return text;
}

}  // namespace twofold
