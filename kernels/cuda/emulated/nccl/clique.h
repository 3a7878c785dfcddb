// The shared memory through which the ranks of a communicator communicate, and the way one rank wakes another.
//
// It is an unnamed file (memfd), made by the process that makes the unique id and opened by the others through /proc.
// It disappears when its last user does. It is initialised to zeros. Every rank holds a lock on one byte of it, so that
// others can see that its process is alive.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/cuda/emulated/nccl/nccl.h"

namespace twofold::emulated {

inline constexpr int kMaxRanks = 32;
inline constexpr size_t kStageBytes = 256 << 10;   // of a rank, for collectives
inline constexpr size_t kChannelBytes = 64 << 10;  // of a pair and direction, for messages

// How to find a clique: the content of a unique id.
struct CliqueName {
  uint64_t magic = 0, nonce = 0;
  int32_t pid = 0, fd = 0;
};

// The operation that a rank is about to do, to be compared with those of the other ranks.
struct Described {
  uint32_t function = 0, type = 0, op = 0, root = 0;
  uint64_t count = 0;
  uint32_t index = 0, of = 0;  // its index among the collectives of its group, and their number
  bool operator==(const Described&) const = default;
};

enum class Presence : uint32_t { kAbsent = 0, kHere, kFinalized, kGone };

// The data that a rank shows to the others. Plain fields are guarded by the counters that follow them: they are written
// before the counter is raised.
struct alignas(64) Place {
  std::atomic<uint32_t> bell;  // rung when something changes that this rank may be waiting for
  int32_t device;
  std::atomic<Presence> presence;
  std::atomic<uint32_t> connected;  // for collectives: one bit for each kind

  int32_t color, key;
  CliqueName child;              // of the communicator that this rank makes
  std::atomic<uint32_t> splits;  // steps of splits that it has reached

  Described call;
  alignas(64) std::byte stage[kStageBytes];
  alignas(64) std::atomic<uint64_t> written;  // rounds of collectives whose data are in the stage
  std::atomic<uint64_t> read;                 // rounds of which it has read all stages
};

// Messages from one rank to another, one piece at a time.
struct alignas(64) Channel {
  std::atomic<uint32_t> sender, receiver;  // whether each has connected
  Described call;                          // the sender's
  uint64_t bytes;                          // of the current piece
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
  // Makes shared memory for ranks to join. It is held until this process's rank has seen all of them, or for as long as
  // the process runs. False if the system cannot provide it.
  static bool Make(CliqueName* name);

  // Returns null and sets `refused` if the clique no longer exists or has another size, or if the rank is taken.
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
  // Waits until done() is true, which checks state whose changes ring the bell, or until `stop` is set by someone who
  // rings it: then returns false.
  template <class F>
  bool Until(const std::atomic<bool>& stop, F done) {
    for (;;) {
      const uint32_t bell = mine().bell.load(std::memory_order_acquire);
      if (stop.load(std::memory_order_acquire)) return false;
      if (done()) return true;
      Sleep(bell);
    }
  }
  // Waits until `reached` is true for all ranks.
  template <class F>
  bool UntilAll(const std::atomic<bool>& stop, F reached) {
    return Until(stop, [&] {
      for (int r = 0; r < size_; ++r) {
        if (!reached(place(r))) return false;
      }
      return true;
    });
  }
  // Sleeps unless the bell has rung since `bell` was read.
  void Sleep(uint32_t bell);

  // Closes what is needed only by ranks that have yet to join.
  void AllHaveJoined();
  // A rank whose process ended without notice; -1: none.
  int Lost();

 private:
  Clique(const CliqueName& name, int rank, int size, int fd, std::shared_ptr<Meeting> meeting)
      : name_(name), rank_(rank), size_(size), fd_(fd), meeting_(std::move(meeting)) {}

  const CliqueName name_;
  const int rank_, size_, fd_;
  const std::shared_ptr<Meeting> meeting_;
};

}  // namespace twofold::emulated
