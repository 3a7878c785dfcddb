// Keys and values that the processes of a job share, for libraries that find their peers by them. They last as long as
// the job.
//
// Uses no sockets and no threads. It is called by one thread at a time and sends through a callback.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "backends/control/control.pb.h"

namespace twofold::control {

class KeyValues {
 public:
  static constexpr size_t kLongestKey = 4096, kMostBytes = size_t{1} << 30, kMostRequests = 1 << 20;  // of all together
  using Send = std::function<void(int member, const FromHub&)>;

  explicit KeyValues(Send send) : send_(std::move(send)) {}

  // Each request is answered by a Value with its number; one that waits for a key, when that is set.
  void Hear(int member, const Set& set);
  void Hear(int member, const Get& get);
  void Forget(int member);  // which asks for nothing more

 private:
  void Answer(int member, uint64_t number, const std::string* bytes);
  void Refuse(int member, uint64_t number, const std::string& why);

  const Send send_;
  std::map<std::string, std::string> values_;
  size_t bytes_ = 0;  // of keys and values
  std::multimap<std::string, std::pair<int, uint64_t>> waiting_;
};

}  // namespace twofold::control
