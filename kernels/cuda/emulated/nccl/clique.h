// The shared memory in which the ranks of a communicator meet, and how one wakes another.
//
// A file without a name (memfd), made by the process that makes the unique id and opened by the others through /proc: it is gone when
// the last of them is. It holds zeros at first. Every rank holds a lock on a byte of it, by which others see that its process lives.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/cuda/emulated/nccl/nccl.h"

namespace twofold::emulated {

inline constexpr int kMaxRanks = 32;
inline constexpr size_t kStageBytes = 256 << 10;    // of a rank, for collectives
inline constexpr size_t kChannelBytes = 64 << 10;   // of a pair and direction, for messages

// Where a clique is found: what a unique id holds.
struct CliqueName {
  uint64_t magic = 0, nonce = 0;
  int32_t pid = 0, fd = 0;
};

// What a rank is about to do, to be held against what the others are.
struct Described {
  uint32_t function = 0, type = 0, op = 0, root = 0;
  uint64_t count = 0;
  uint32_t index = 0, of = 0;  // among the collectives of its group
  bool operator==(const Described&) const = default;
};

enum class Presence : uint32_t { kAbsent = 0, kHere, kFinalized, kGone };

// What a rank shows the others. Plain fields belong to the counters that follow them: written before they are raised.
struct alignas(64) Place {
  std::atomic<uint32_t> bell;  // rung when something has changed that this rank may wait for
  int32_t device;
  std::atomic<Presence> presence;
  std::atomic<uint32_t> connected;  // for collectives: a bit for each kind

  int32_t color, key;
  CliqueName child;  // of the communicator that this rank makes
  std::atomic<uint32_t> splits;  // steps of splits that it has got to

  Described call;
  alignas(64) std::byte stage[kStageBytes];
  alignas(64) std::atomic<uint64_t> written;  // rounds of collectives: what the stage holds
  std::atomic<uint64_t> read;                 // rounds of which it has read all stages
};

// Messages from one rank to another: a piece at a time.
struct alignas(64) Channel {
  std::atomic<uint32_t> sender, receiver;  // who has connected
  Described call;                          // the sender's
  uint64_t bytes;                          // of the piece
  std::atomic<uint64_t> written, read;     // pieces
  alignas(64) std::byte piece[kChannelBytes];
};

struct Meeting {
  std::atomic<uint64_t> nonce;
  std::atomic<uint32_t> size;
  Place places[kMaxRanks];
  Channel channels[kMaxRanks][kMaxRanks];  // [from][to]
};

class Clique {
 public:
  // Shared memory for ranks to join; it is held until this process's rank has seen all of them, or for as long as it runs.
  // False: the system has none.
  static bool Make(CliqueName* name);

  // Null, and why, where it is gone or has another size, or the rank is taken.
  struct Refused {
    ncclResult_t result = ncclSuccess;
    const char* why = "";
  };
  static std::shared_ptr<Clique> Join(const CliqueName& name, int rank, int size, Refused* refused);
  ~Clique();

  int rank() const { return rank_; }
  int size() const { return size_; }
  Place& place(int rank) { return meeting_->places[rank]; }
  Place& mine() { return place(rank_); }
  Channel& channel(int from, int to) { return meeting_->channels[from][to]; }

  void Ring(int rank);
  void RingAll();
  // Until done(), which looks at what the others ring for, or `stop`, which who sets it rings for: false then.
  template <class F>
  bool Until(const std::atomic<bool>& stop, F done) {
    for (;;) {
      const uint32_t bell = mine().bell.load(std::memory_order_acquire);
      if (stop.load(std::memory_order_acquire)) return false;
      if (done()) return true;
      Sleep(bell);
    }
  }
  // Until all ranks' `reached` hold.
  template <class F>
  bool UntilAll(const std::atomic<bool>& stop, F reached) {
    return Until(stop, [&] {
      for (int r = 0; r < size_; ++r) {
        if (!reached(place(r))) return false;
      }
      return true;
    });
  }
  // Unless the bell has rung since it was seen so.
  void Sleep(uint32_t bell);

  // Closes what only those who have yet to join need.
  void AllHaveJoined();
  // A rank whose process has ended without a word; -1: none.
  int Lost();

 private:
  Clique(const CliqueName& name, int rank, int size, int fd, std::shared_ptr<Meeting> meeting)
      : name_(name), rank_(rank), size_(size), fd_(fd), meeting_(std::move(meeting)) {}

  const CliqueName name_;
  const int rank_, size_, fd_;
  const std::shared_ptr<Meeting> meeting_;
};

}  // namespace twofold::emulated
