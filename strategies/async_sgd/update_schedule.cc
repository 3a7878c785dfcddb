#include "strategies/async_sgd/update_schedule.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace twofold {

UpdateSchedule::UpdateSchedule(const Options& options)
    : options_(options), began_(static_cast<size_t>(options.workers)) {
  TWOFOLD_CHECK_GE(options.workers, 1);
  TWOFOLD_CHECK(!options.staleness || *options.staleness >= 0, "a gradient is not older than its parameters");
}

// Whether gradients on the parameters after `began` updates find places in time, if the next update has `taken` ones.
// The i-th oldest one needs a place among those of the updates until it is due.
bool UpdateSchedule::Fits(std::vector<int64_t> began, int64_t taken) const {
  std::sort(began.begin(), began.end());
  for (size_t i = 0; i < began.size(); ++i) {
    int64_t due = options_.updates - 1;
    if (options_.staleness) due = std::min(due, began[i] + std::min(*options_.staleness, options_.updates));
    if (static_cast<int64_t>(i) + 1 > (due - done_ + 1) * options_.workers - taken) return false;
  }
  return true;
}

std::vector<int64_t> UpdateSchedule::Computing(int but) const {
  std::vector<int64_t> all;
  for (int w = 0; w < options_.workers; ++w) {
    if (w != but && computes(w)) all.push_back(began(w));
  }
  return all;
}

bool UpdateSchedule::MayStart() const {
  std::vector<int64_t> all = Computing();
  all.push_back(done_);
  return Fits(std::move(all), taken_);
}

void UpdateSchedule::Start(int worker) {
  TWOFOLD_CHECK(!computes(worker) && MayStart(), "a worker starts when it may");
  began_[static_cast<size_t>(worker)] = done_;
}

bool UpdateSchedule::MayTake(int worker) const {
  return computes(worker) && !complete() && Fits(Computing(worker), taken_ + 1);
}

int64_t UpdateSchedule::Take(int worker) {
  TWOFOLD_CHECK(MayTake(worker), "a gradient is taken when it may be");
  const int64_t staleness = done_ - began(worker);
  began_[static_cast<size_t>(worker)].reset();
  ++taken_;
  return staleness;
}

void UpdateSchedule::Update() {
  TWOFOLD_CHECK(complete() && done_ < options_.updates, "an update has as many gradients as there are workers");
  taken_ = 0;
  ++done_;
}

void UpdateSchedule::Skip(int64_t updates) {
  done_ += updates;
  for (std::optional<int64_t>& began : began_) {
    if (began) *began += updates;
  }
}

}  // namespace twofold
