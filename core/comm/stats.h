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

 private:
  std::map<std::pair<std::string, Communication::Kind>, Entry> entries_;
};

}  // namespace twofold
