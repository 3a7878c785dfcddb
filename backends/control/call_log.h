// Records one rank's calls on one group, so that ranks can be compared without communicating before every call.
//
// Ranks of a group must issue the same collectives in the same order. Each rank keeps its latest calls and a running
// digest of all. Equal digests at equal sequence numbers mean equal histories; the records show where two histories
// diverge. The counts of an all_to_all_v differ by rank, but what one rank sends another must expect. So their hashes
// are added on the sender's side, subtracted on the receiver's, and cancel out over the group.
//
// If a library matches the messages between two ranks by order alone, each rank pair's messages are compared in the
// same way.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "backends/control/control.pb.h"
#include "backends/host/call.h"

namespace twofold::control {

Record RecordOf(const Communication& c);
Record RecordOfMessage(Tag tag, Bytes bytes);
bool SameRecord(const Record& a, const Record& b);
std::string ToString(const Record& record);  // "all_reduce(sum) of f32[10] (40 bytes)"

// The id of the group that split number `split` of group `parent` creates for one color; every rank computes the same
// id.
uint64_t ChildGroupId(uint64_t parent, uint64_t split, int color);
// Identifies the messages on `group` from its rank `from` to its rank `to`, as if the two were a group that calls them.
host::GroupIdentity MessagesOf(const host::GroupIdentity& group, int from, int to);

// Written by the rank's host, read by the client.
class CallLog {
 public:
  static constexpr size_t kKept = 4096;

  // `rank` is this rank in the group. The last `kept` calls can be named.
  CallLog(std::shared_ptr<const host::GroupIdentity> group, int rank, size_t kept = kKept)
      : group_(std::move(group)), rank_(rank), most_kept_(kept) {}

  void Add(const Communication& c) { Add(RecordOf(c)); }
  void AddMessage(Tag tag, Bytes bytes) { Add(RecordOfMessage(tag, bytes)); }
  // Returns the points that are new since the last call: all of them if there are few, else every kStride'th.
  void TakePoints(google::protobuf::RepeatedPtrField<Point>& out);
  Point LastPoint() const;  // the state after all calls so far
  GroupLog Records() const;

 private:
  static constexpr uint64_t kFew = 16, kStride = 64;
  struct Entry {
    Record record;
    uint64_t digest, balance;
  };
  void Add(Record record);
  Point PointAt(uint64_t sequence) const;

  const std::shared_ptr<const host::GroupIdentity> group_;
  const int rank_;
  const size_t most_kept_;
  mutable std::mutex mutex_;
  std::deque<Entry> kept_;  // the latest calls
  uint64_t sequence_ = 0, told_ = 0;
};

}  // namespace twofold::control
