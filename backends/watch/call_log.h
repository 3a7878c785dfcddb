// What one rank has called on one group, so that ranks can be compared without asking before every call.
//
// Ranks of a group must issue the same collectives in the same order. Each keeps the last ones and a running digest of all;
// equal digests at equal sequence numbers mean equal histories, and the records say where two histories part. The counts of
// an all_to_all_v differ by rank: what one sends another must expect, so their hashes are added on one side, subtracted on
// the other, and cancel out over the group.
//
// Where a library matches the messages of two ranks by their order alone, those from one to the other are compared likewise.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/host/call.h"
#include "core/proto/control.pb.h"

namespace twofold::watch {

control::Record RecordOf(const Communication& c);
control::Record RecordOfMessage(Tag tag, Bytes bytes);
bool SameRecord(const control::Record& a, const control::Record& b);
std::string ToString(const control::Record& record);  // "all_reduce(sum) of f32[10] (40 bytes)"

// The id of a group that the `split`th split of group `parent` makes for one color: every rank computes the same.
uint64_t ChildGroupId(uint64_t parent, uint64_t split, int color);
// Of the messages on `group` from its rank `from` to its rank `to`, as if the two were a group that called them.
host::GroupIdentity MessagesOf(const host::GroupIdentity& group, int from, int to);

// Added to by the rank's host, read by the watch.
class CallLog {
 public:
  static constexpr size_t kKept = 4096;

  // `rank` is this rank's in the group. The last `kept` calls can be named.
  CallLog(std::shared_ptr<const host::GroupIdentity> group, int rank, size_t kept = kKept)
      : group_(std::move(group)), rank_(rank), most_kept_(kept) {}

  void Add(const Communication& c) { Add(RecordOf(c)); }
  void AddMessage(Tag tag, Bytes bytes) { Add(RecordOfMessage(tag, bytes)); }
  // What is new since the last call: every point where there are few, else each kStride'th.
  void TakePoints(google::protobuf::RepeatedPtrField<control::Point>& out);
  control::Point LastPoint() const;  // of all so far
  control::GroupLog Records() const;

 private:
  static constexpr uint64_t kFew = 16, kStride = 64;
  struct Entry {
    control::Record record;
    uint64_t digest, balance;
  };
  void Add(control::Record record);
  control::Point PointAt(uint64_t sequence) const;

  const std::shared_ptr<const host::GroupIdentity> group_;
  const int rank_;
  const size_t most_kept_;
  mutable std::mutex mutex_;
  std::deque<Entry> kept_;  // the last ones
  uint64_t sequence_ = 0, told_ = 0;
};

}  // namespace twofold::watch
