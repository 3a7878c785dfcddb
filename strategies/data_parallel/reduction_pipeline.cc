#include "strategies/data_parallel/reduction_pipeline.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace twofold {

void ReductionPipeline::Add(Bucket bucket, std::unique_ptr<GradientHome> home) {
  bucket.index = entries_.size();
  HolderSums sums(bucket.kept, sharers_);
  std::unique_ptr<Reducer> reducer = bucket.groups.reduces() ? make_reducer_(ctx_, bucket) : nullptr;
  entries_.push_back({std::move(bucket), std::move(reducer), std::move(home), std::move(sums)});
}

void ReductionPipeline::BeginStep(double loss_scale) {
  loss_scale_ = loss_scale;
  for (Entry& entry : entries_) entry.home->BeginStep();
}

bool ReductionPipeline::IsInFlight(size_t index) const {
  const auto is = [&](const InFlight& f) { return f.entry == &entries_[index]; };
  return std::any_of(in_flight_.begin(), in_flight_.end(), is);
}

void ReductionPipeline::Start(size_t index, Tensor gradients, bool last) {
  Entry& entry = entries_[index];
  TWOFOLD_CHECK(!IsInFlight(index), "a bucket is reduced once at a time");
  InFlight flight{.entry = &entry, .last = last};
  if (entry.reducer != nullptr) {
    flight.work = entry.reducer->Start(ctx_, std::move(gradients), entry.home->Begin(), last, loss_scale_);
    entry.home->Started();
  } else if (!BeginSums(flight, std::move(gradients))) {
    return;
  }
  in_flight_.push_back(std::move(flight));
}

// Starts the sums of a bucket whose gradients of this step are complete. Returns false if there are none.
bool ReductionPipeline::BeginSums(InFlight& flight, Tensor sum) {
  if (!flight.last || flight.entry->sums.empty()) return false;
  flight.sum = std::move(sum);
  flight.sending = flight.entry->sums.Start(ctx_, flight.sum);
  return true;
}

bool ReductionPipeline::Step(InFlight& flight) {
  Entry& entry = *flight.entry;
  if (!flight.sending.empty()) {
    entry.sums.Finish(ctx_, std::exchange(flight.sending, {}), flight.sum);
    if (entry.reducer != nullptr) entry.home->Store(std::exchange(flight.sum, Tensor()));
    return true;
  }
  std::exchange(flight.work, Work()).WaitOn(ctx_.stream);
  if (std::optional<Work> next = entry.reducer->Next(ctx_)) {
    flight.work = *std::move(next);
    return false;
  }
  Tensor sum = entry.home->Add(entry.reducer->Mean(ctx_), flight.last);
  if (BeginSums(flight, sum)) return false;
  entry.home->Store(std::move(sum));
  return true;
}

void ReductionPipeline::Advance() {
  for (InFlight& flight : std::exchange(in_flight_, {})) {
    if (!Step(flight)) in_flight_.push_back(std::move(flight));
  }
}

void ReductionPipeline::Finish() {
  while (!in_flight_.empty()) Advance();
}

void ReductionPipeline::Skip() {
  for (Entry& entry : entries_) {
    if (entry.reducer != nullptr) entry.reducer->Skip(ctx_);
  }
}

std::vector<ReducerState> ReductionPipeline::StateOf(size_t index) const {
  const std::unique_ptr<Reducer>& reducer = entries_[index].reducer;
  return reducer == nullptr ? std::vector<ReducerState>() : reducer->State();
}

}  // namespace twofold
