// What a simulation is doing, in memory that outlives its process: whose turn it is, and what each rank called last.
//
// Written by the process that simulates, by one actor at a time; read by the parent that forked it, at any time. Ranks are
// those of the world.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace twofold::sim {

class FlightRecord {
 public:
  static constexpr int kNobody = -1;  // no rank has begun, or the last one to run has ended

  // To be made before the fork. INTERNAL when there is no memory.
  static absl::StatusOr<std::unique_ptr<FlightRecord>> Make(int ranks);
  ~FlightRecord();
  FlightRecord(const FlightRecord&) = delete;
  FlightRecord& operator=(const FlightRecord&) = delete;

  struct Turn {
    int32_t rank;       // the last one to run, or kNobody
    bool in_simulator;  // it has called the simulator; else its own code runs
  };

  // ---- By the process that simulates ----
  void SetTurn(Turn turn);
  // Names live as long as the program, but for the group's.
  void Launched(int rank, std::string_view operation);
  struct Call {
    std::string_view operation;  // empty: that it is counted as
    int64_t bytes = 0;
    std::string_view counted;    // "collective": the sequence number is that of the group's collectives
    uint64_t sequence = 0;
  };
  void Communicated(int rank, const Call& call, std::string_view group);

  // While it lives, the rank whose turn it is has called the simulator. Others may run meanwhile; afterwards it is that
  // rank's turn again. Without a record: nothing.
  class Aside {
   public:
    explicit Aside(FlightRecord* record);
    ~Aside();
    Aside(const Aside&) = delete;
    Aside& operator=(const Aside&) = delete;

   private:
    FlightRecord* const record_;
    Turn before_{};
  };

  // ---- By its parent ----
  Turn turn() const;
  uint64_t progress() const;  // grows with everything that is noted above
  // "its last call was all_reduce (40 bytes), collective 1 of group world; since then it launched 2 operations, the last one
  // fill".
  std::string LastCall(int rank) const;

 private:
  struct Header;
  struct Slot;
  FlightRecord(void* memory, size_t bytes) : memory_(memory), bytes_(bytes) {}
  Header& header() const;
  Slot& slot(int rank) const;
  void Progress();

  void* const memory_;
  const size_t bytes_;
};

}  // namespace twofold::sim
