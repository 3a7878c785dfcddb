#include "backends/simulated/work.h"

#include <algorithm>

#include "core/base/strings.h"
#include "core/run/trace.h"

namespace twofold {
namespace {

constexpr double kPollSeconds = 1e-6;  // host time of one Test()

// How long the host's own work was delayed by communication on its core. Between `start` and the wait the core did
// both, so the communication's share of the core is added to the host's time.
double CoreTimeTaken(double start, double end, double host) {
  return std::max(0.0, std::min(host - start, end - start));
}

}  // namespace

void SimulatedWork::Wait() {
  rank_.Flush();
  if (beside_ != 0) rank_.communicating().Ended(beside_);
  if (rank_.machine().shared_cores) PayForCore();
  const double before = rank_.host().time();
  rank_.HostWait(
      done(), [this] { return What(); }, stream_);
  if (messages_ == nullptr && done()->time() > before) rank_.Met();
  if (brief_) rank_.TookBriefly(rank_.host().time() - before);
}

void SimulatedWork::PayForCore() {
  if (paid_) return;
  paid_ = true;
  rank_.engine().Block(rank_.rank(), done(), [this] { return What(); });
  const double host = rank_.host().time();
  const double taken = rank_.machine().core_share * CoreTimeTaken(*started_, done()->time(), host);
  rank_.host().Advance(taken, 0,
                       rank_.trace().enabled() && taken > 0 ? kCommunicationBesideCompute : std::string_view(),
                       rank_.trace().label());
}

void SimulatedWork::WaitOn(Stream& stream) {
  if (!rank_.machine().gpu) return Wait();  // a CPU's stream is the host
  if (beside_ != 0) rank_.communicating().Ended(beside_);
  const auto wait = [&] { stream.WaitFor(Event(std::make_shared<SimulatedPoint>(rank_, done(), stream_))); };
  if (!brief_) return wait();
  auto came = std::make_shared<double>(0);
  rank_.Flush();
  rank_.compute().Call([came](double time) { *came = time; });
  wait();
  rank_.Flush();
  rank_.compute().Call([came, &rank = rank_](double time) { rank.TookBriefly(time - *came); });
}

// Others are sooner by its launch, by what they do not wait for it, and by what it does not slow beside it
// (Communicating::SlowedBriefly).
void SimulatedWork::SetBrief() {
  brief_ = true;
  if (rank_.machine().gpu) rank_.TookBriefly(rank_.machine().communication_launch_seconds);
}

// Polling takes time; otherwise a loop around it would never end.
bool SimulatedWork::Test() {
  auto until = std::make_shared<sim::TimePoint>();
  const double next = rank_.host().time() + kPollSeconds;
  rank_.engine().At(next, [until, next] { until->Resolve(next); });
  rank_.HostWait(until, [] { return std::string("its next poll"); });
  return done()->known() && done()->time() <= rank_.host().time();
}

// Picks the earliest to finish in virtual time. A known time may still be beaten by one that is not known yet.
size_t SimulatedWork::WaitAny(std::span<Work::State* const> states) {
  auto done = [&](size_t i) -> const sim::TimePointPtr& { return static_cast<SimulatedWork*>(states[i])->done(); };
  auto what = [&] {
    std::string text = states.size() > 1 ? "any of " : "";
    for (size_t i = 0; i < states.size(); ++i) {
      StrAppend(&text, i > 0 ? " or " : "", static_cast<SimulatedWork*>(states[i])->What());
    }
    return text;
  };
  while (true) {
    size_t best = states.size();
    for (size_t i = 0; i < states.size(); ++i) {
      if (done(i)->known() && (best == states.size() || done(i)->time() < done(best)->time())) best = i;
    }
    const bool any_known = best < states.size();
    if (any_known && done(best)->time() <= std::max(rank_.host().time(), rank_.engine().now())) {
      rank_.HostWait(done(best), what);
      return best;
    }
    auto change = std::make_shared<sim::TimePoint>();
    auto wake = [change] {
      if (!change->known()) change->Resolve(0);
    };
    if (any_known) rank_.engine().At(done(best)->time(), wake);
    for (size_t i = 0; i < states.size(); ++i) {
      if (!done(i)->known()) done(i)->Then(wake);
    }
    rank_.engine().Block(rank_.rank(), change, what);
  }
}

}  // namespace twofold
