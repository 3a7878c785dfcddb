// Counts a rank's communication, for the report's `collectives` rows.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "core/comm/communication.h"

namespace twofold {

// Only the rank's thread creates entries. Communication threads may add to `seconds`.
class CommunicationStats {
 public:
  struct Entry {
    int64_t count = 0;
    Bytes bytes;
    std::atomic<double> seconds = 0;  // from the call's start on its stream to its completion on this rank
  };
  Entry& operator()(const std::string& group, Communication::Kind kind) { return entries_[{group, kind}]; }
  const std::map<std::pair<std::string, Communication::Kind>, Entry>& entries() const { return entries_; }

  struct Totals {
    int64_t count = 0;
    Bytes bytes;
    double seconds = 0;
  };
  using Snapshot = std::map<std::pair<std::string, Communication::Kind>, Totals>;
  Snapshot Now() const {
    Snapshot now;
    for (const auto& [key, entry] : entries_) now[key] = {entry.count, entry.bytes, entry.seconds};
    return now;
  }
  // Adds `times` times what was added since `before`.
  void Repeat(const Snapshot& before, int64_t times) {
    for (auto& [key, entry] : entries_) {
      const auto known = before.find(key);
      const Totals then = known == before.end() ? Totals() : known->second;
      entry.count += times * (entry.count - then.count);
      entry.bytes += (entry.bytes - then.bytes) * times;
      entry.seconds = entry.seconds + static_cast<double>(times) * (entry.seconds - then.seconds);
    }
  }

 private:
  std::map<std::pair<std::string, Communication::Kind>, Entry> entries_;
};

}  // namespace twofold
