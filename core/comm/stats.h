// What a rank communicated: the report's `collectives` rows.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "core/comm/communication.h"

namespace twofold {

// Entries are made by the rank's thread; `seconds` may be added to from the communication threads.
class CommunicationStats {
 public:
  struct Entry {
    int64_t count = 0;
    Bytes bytes;
    std::atomic<double> seconds = 0;  // from the call's start on its stream to this rank's completion
  };
  Entry& operator()(const std::string& group, Communication::Kind kind) { return entries_[{group, kind}]; }
  const std::map<std::pair<std::string, Communication::Kind>, Entry>& entries() const { return entries_; }

 private:
  std::map<std::pair<std::string, Communication::Kind>, Entry> entries_;
};

}  // namespace twofold
