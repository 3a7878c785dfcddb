// Which part of a simulation this process is working on, sampled by a timer. Parts change millions of times, and
// reading a clock each time would slow down what is measured.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace twofold::sim {

// kRanks: the strategies' code, and what it calls of the simulated device and its streams. kCollectives: choosing and
// planning schedules. kFlows: who shares links with whom. kEngine: the rest, events and switches between ranks.
enum class Part { kRanks, kCollectives, kFlows, kEngine };
inline constexpr std::array<std::string_view, 4> kPartNames = {"ranks", "collectives", "flows", "engine"};

// While it lives, this process works on `part`. A rank that blocks and goes on later continues with its own part.
class AtWork {
 public:
  explicit AtWork(Part part);
  ~AtWork();
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;

 private:
  const int before_;
};

// Counts from now on, at every tick of the kernel's clock (1 to 10 ms) in which this process has run (SIGPROF).
// Does nothing under sanitizers.
void StartSampling();
// How often each part was at work.
std::array<int64_t, kPartNames.size()> Samples();

}  // namespace twofold::sim
