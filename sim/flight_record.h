// What a simulation is doing, in memory that outlives its process: whose turn it is, and each rank's last call.
//
// Written by the simulating process, by one actor at a time; read at any time by the parent that forked it. Ranks are
// world ranks.
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

  // Call before the fork. INTERNAL if there is no memory.
  static absl::StatusOr<std::unique_ptr<FlightRecord>> Make(int ranks);
  ~FlightRecord();
  FlightRecord(const FlightRecord&) = delete;
  FlightRecord& operator=(const FlightRecord&) = delete;

  struct Turn {
    int32_t rank;       // the last one to run, or kNobody
    bool in_simulator;  // it has called the simulator; otherwise its own code runs
  };

  // ---- For the simulating process ----
  void SetTurn(Turn turn);
  // Names must live as long as the program, except the group's.
  void Launched(int rank, std::string_view operation);
  struct Call {
    std::string_view operation;  // empty: same as `counted`
    int64_t bytes = 0;
    std::string_view counted;  // "collective": `sequence` counts the group's collectives
    uint64_t sequence = 0;
  };
  void Communicated(int rank, const Call& call, std::string_view group);

  // While an Aside lives, the rank whose turn it is has called the simulator, and other ranks may run. Afterwards it is
  // that rank's turn again. Does nothing without a record.
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

  // ---- For its parent ----
  Turn turn() const;
  uint64_t progress() const;  // grows with every call above
  // "its last call was all_reduce (40 bytes), collective 1 of group world; since then it launched 2 operations, the
  // last one fill".
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
