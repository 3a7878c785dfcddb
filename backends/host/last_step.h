// The last step of a run that SIGTERM asks to end after a step (train.checkpoint.on_signal).
//
// Ranks save together, so all must end after the same step. But when the signal comes they are at different steps, and
// it may reach some of their processes only. The last step is the greatest that any rank has begun: every rank still
// gets there, because those before it go on. It is found in three moves. Until a signal comes none is made, and a step
// costs training one lock of a mutex:
//   1. a rank that is about to begin a step sees the signal and asks
//   2. Hold, in every process: no rank begins a further step, and the greatest that one has begun is told
//   3. Decide, in every process, with the greatest of these: ranks go on, up to that step
// If all ranks are threads of one process, the rank that asks makes all three (the default of `ask`).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "backends/host/interrupt.h"

namespace twofold::host {

// What the ranks of one process know of it. Thread-safe.
class LastStep {
 public:
  static constexpr int64_t kNone = -1;  // before the first step

  // `ask` is called once, by a rank's thread. It must see to it that Hold and then Decide are called in all processes.
  // It must not block.
  explicit LastStep(std::function<void()> ask = nullptr) : ask_(std::move(ask)) {}
  ~LastStep() {
    if (used_) InterruptScope::TermAsks(false);
  }
  LastStep(const LastStep&) = delete;
  LastStep& operator=(const LastStep&) = delete;

  // Call it before each step, numbered from 0, in order. False: the run has been asked to end, no rank begins this
  // step, and all ranks have done the one before it. Waits while the last step is being found, and then calls
  // `check` several times a second, which throws if the run is ending. From the first call on, SIGTERM asks.
  bool MayBegin(int64_t step, const std::function<void()>& check);

  // Returns the greatest step that a rank of this process has begun; kNone if none has. No further one begins until
  // Decide.
  int64_t Hold();
  void Decide(int64_t last);

 private:
  const std::function<void()> ask_;
  std::mutex mutex_;
  std::condition_variable decided_;
  bool used_ = false;
  int64_t begun_ = kNone;
  bool held_ = false;
  std::optional<int64_t> last_;
};

}  // namespace twofold::host
