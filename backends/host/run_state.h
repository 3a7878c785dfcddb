// What the ranks of one run share besides their groups: when it began, how it ends, and which rank is doing what. If
// the run has several generations of members, each has its own; ranks are the members' numbers then, and times still
// count from the beginning of the run.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/host/call.h"
#include "backends/host/interrupt.h"

namespace twofold::host {

class RunState {
 public:
  // `clock` returns seconds since the run began, for tests that control time; by default steady_clock is used.
  RunState(int world_size, double timeout_s, std::function<double()> clock = nullptr);
  // Of the run's next generation. `ranks`: more than any member's number.
  RunState(const RunState& previous, int ranks);

  double Now() const;                                               // seconds since the run began
  double Since(std::chrono::steady_clock::time_point t) const;      // `t` on the run's time line
  double Since(double steady) const { return steady - Steady(0); }  // `steady`: seconds of steady_clock
  double Steady(double time) const {                                // the inverse
    return time + std::chrono::duration<double>(origin_.time_since_epoch()).count();
  }
  double timeout_s() const { return timeout_s_; }

  // ---- How the run ends: the first failure is the run's; later ones are treated as its consequences. Only kRunOver
  // takes the place of a failure that the run could have survived ----
  void Fail(int rank, RankFailure::Kind kind, std::string message);
  // An exception is leaving `rank`'s function and has reached a destructor of work that cannot finish without that
  // rank. Explain will report the exception; until then `message` is used.
  void Claim(int rank, std::string message);
  void Explain(int rank, RankFailure::Kind kind, std::string message);
  void Leave(int rank);  // its function has returned and everything it issued is done
  bool HasLeft(int rank) const { return left_[static_cast<size_t>(rank)].load(std::memory_order_acquire); }
  bool ending() const { return failed_.load(std::memory_order_acquire) || InterruptScope::Raised(); }
  // Throws Interrupted, PeerLost naming the rank that failed first and why, or `rank`'s own failure again.
  void ThrowIfEnding(int rank, std::string_view doing) const;
  absl::Status status() const;

  // ---- Which rank is doing what ----
  void Begin(int rank, std::shared_ptr<const Call> call);
  void End(int rank, const std::shared_ptr<const Call>& call);
  struct Calls {
    std::vector<std::shared_ptr<const Call>> now;  // begun and not ended
    std::shared_ptr<const Call> last;              // the last that ended
  };
  Calls CallsOf(int rank) const;
  std::string Doing(int rank) const;  // "rank 2, which is in send of ..."

  struct Failure {
    int rank;
    RankFailure::Kind kind;
    std::string message;
    bool claimed;
  };
  std::optional<Failure> failure() const;  // the first one

 private:
  struct alignas(128) Activity {  // written at every call, so each has its own cache lines
    mutable std::mutex mutex;
    std::vector<std::shared_ptr<const Call>> now;
    std::shared_ptr<const Call> last;
  };

  bool IsGraver(RankFailure::Kind kind) const;  // than the known failure

  const std::chrono::steady_clock::time_point origin_;
  const double timeout_s_;
  const std::function<double()> clock_;
  mutable std::mutex mutex_;
  std::optional<Failure> failure_;
  std::atomic<bool> failed_ = false;
  std::vector<std::atomic<bool>> left_;
  std::vector<Activity> activities_;
};

}  // namespace twofold::host
