#include "backends/control/key_values.h"

#include "absl/status/status.h"
#include "core/base/strings.h"

namespace twofold::control {

void KeyValues::Hear(int member, const Set& set) {
  const auto before = values_.find(set.key());
  const size_t released = before == values_.end() ? 0 : set.key().size() + before->second.size();
  const size_t bytes = bytes_ - released + set.key().size() + set.bytes().size();
  if (set.key().size() > kLongestKey)
    return Refuse(member, set.number(), StrCat("a key may have ", kLongestKey, " bytes, not ", set.key().size()));
  if (bytes > kMostBytes)
    return Refuse(member, set.number(), StrCat("all keys and values together may have ", kMostBytes, " bytes"));
  bytes_ = bytes;
  const std::string& value = values_[set.key()] = set.bytes();
  Answer(member, set.number(), nullptr);
  const auto [first, last] = waiting_.equal_range(set.key());
  for (auto w = first; w != last; ++w) Answer(w->second.first, w->second.second, &value);
  waiting_.erase(first, last);
}

void KeyValues::Hear(int member, const Get& get) {
  const auto found = values_.find(get.key());
  if (found != values_.end() || !get.wait())
    return Answer(member, get.number(), found == values_.end() ? nullptr : &found->second);
  if (get.key().size() > kLongestKey || waiting_.size() >= kMostRequests)
    return Refuse(member, get.number(), "the key is too long, or too many requests wait for keys");
  waiting_.emplace(get.key(), std::pair(member, get.number()));
}

void KeyValues::Forget(int member) {
  std::erase_if(waiting_, [member](const auto& w) { return w.second.first == member; });
}

void KeyValues::Answer(int member, uint64_t number, const std::string* bytes) {
  FromHub message;
  message.mutable_value()->set_number(number);
  message.mutable_value()->set_found(bytes != nullptr);
  if (bytes != nullptr) message.mutable_value()->set_bytes(*bytes);
  send_(member, message);
}

void KeyValues::Refuse(int member, uint64_t number, const std::string& why) {
  FromHub message;
  message.mutable_value()->set_number(number);
  message.mutable_value()->mutable_fault()->set_code(static_cast<int>(absl::StatusCode::kResourceExhausted));
  message.mutable_value()->mutable_fault()->set_message(StrCat("fabric.rendezvous: ", why));
  send_(member, message);
}

}  // namespace twofold::control
