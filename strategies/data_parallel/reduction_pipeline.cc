#include "strategies/data_parallel/reduction_pipeline.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/base/philox.h"
#include "core/base/strings.h"

namespace twofold {

void ReductionPipeline::Add(Bucket bucket, std::unique_ptr<GradientHome> home) {
  bucket.index = entries_.size();
  std::unique_ptr<Reducer> reducer = bucket.groups.reduces() ? make_reducer_(ctx_, bucket) : nullptr;
  entries_.push_back({std::move(bucket), std::move(reducer), std::move(home), HolderSums()});
  entries_.back().sums = SumsOf(entries_.size() - 1, entries_.back().bucket.kept);
}

HolderSums ReductionPipeline::SumsOf(size_t index, const std::vector<optim::SlicePart>& kept) const {
  const Reducer* reducer = entries_[index].reducer.get();
  return {kept, groups_, /*copies_differ=*/reducer != nullptr && !reducer->elementwise()};
}

void ReductionPipeline::StandFor(size_t index, const std::vector<optim::SlicePart>& kept) {
  entries_[index].sums = SumsOf(index, kept);
  entries_[index].sums.SetBrief();
}

void ReductionPipeline::Attached(const Reducer::StateOf& state_of) {
  for (Entry& entry : entries_) {
    if (entry.reducer != nullptr) entry.reducer->Attached(state_of);
  }
}

void ReductionPipeline::BeginStep(double loss_scale) {
  TWOFOLD_CHECK(in_flight_.empty() && late_.empty(), "the step before was finished");
  for (Entry& entry : entries_) {
    entry.home->BeginStep();
    if (entry.reducer != nullptr) entry.reducer->BeginStep(ctx_, loss_scale);
  }
}

bool ReductionPipeline::IsInFlight(size_t index) const {
  const auto is = [&](const InFlight& f) { return f.entry == &entries_[index]; };
  return std::any_of(in_flight_.begin(), in_flight_.end(), is);
}

void ReductionPipeline::Start(size_t index, Tensor gradients, bool last) {
  TWOFOLD_CHECK(!IsInFlight(index), "a bucket is reduced once at a time");
  Entry& entry = entries_[index];
  InFlight flight{.entry = &entry, .last = last};
  if (entry.reducer == nullptr) return Sum(std::move(flight), std::move(gradients));
  flight.work = entry.reducer->Start(ctx_, std::move(gradients), entry.home->Begin(), last);
  entry.home->Started();
  in_flight_.push_back(std::move(flight));
}

// The mean of a bucket is complete, and it was added to those of earlier micro-batches.
void ReductionPipeline::Sum(InFlight flight, Tensor gradients) {
  Entry& entry = *flight.entry;
  if (!flight.last || entry.sums.empty()) return entry.home->Store(std::move(gradients));
  flight.gradients = std::move(gradients);
  if (!entry.sums.across_stages()) StartSums(flight);
  (entry.sums.across_stages() ? late_ : in_flight_).push_back(std::move(flight));
}

void ReductionPipeline::Step(InFlight flight) {
  Entry& entry = *flight.entry;
  if (!flight.sending.empty()) {
    entry.sums.Finish(ctx_, std::move(flight.sending), flight.gradients);
    return entry.home->Store(std::move(flight.gradients));
  }
  std::exchange(flight.work, Work()).WaitOn(ctx_.stream);
  if (std::optional<Work> next = entry.reducer->Next(ctx_)) {
    flight.work = *std::move(next);
    in_flight_.push_back(std::move(flight));
  } else {
    Sum(std::move(flight), entry.home->Add(entry.reducer->Mean(ctx_), flight.last));
  }
}

void ReductionPipeline::Advance() {
  for (InFlight& flight : std::exchange(in_flight_, {})) Step(std::move(flight));
}

void ReductionPipeline::AdvanceDependent() {
  for (InFlight& flight : std::exchange(in_flight_, {})) {
    const Reducer* const reducer = flight.entry->reducer.get();
    if (flight.sending.empty() && reducer != nullptr && reducer->has_next()) {
      Step(std::move(flight));
    } else {
      in_flight_.push_back(std::move(flight));
    }
  }
}

// Another stage may start its sums across stages only after its last backward pass. They are started here on every
// stage, so that all ranks start these and the messages between stages in the same order.
void ReductionPipeline::Finish() {
  while (!in_flight_.empty()) Advance();
  for (InFlight& flight : late_) StartSums(flight);
  for (InFlight& flight : std::exchange(late_, {})) Step(std::move(flight));
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

uint64_t HashOf(const std::vector<optim::SlicePart>& parts) {
  std::string text;
  optim::ForStretches(parts, [&](int64_t at, const nn::Parameter& p, const nn::Parameter::Stretch& stretch) {
    const Region& r = stretch.where;
    StrAppend(&text, at, " ", p.name(), " ", r.first, " ", r.count, " ", r.row, " ", r.column, " ", r.width, ";");
  });
  return StableHash(text);
}

std::vector<NamedState::Elements> ReductionPipeline::ElementsOf(const Bucket& bucket, const ReducerState& state) const {
  std::vector<NamedState::Elements> holds;
  const int64_t end = state.first + state.tensor.numel();
  optim::ForStretches(bucket.whole, [&](int64_t at, const nn::Parameter& p, const nn::Parameter::Stretch& stretch) {
    const int64_t begin = std::max(at, state.first), count = std::min(at + stretch.where.count, end) - begin;
    if (count <= 0 || stretch.part.padding) return;
    const ProcessGroup* const group = groups_.HoldersOf(stretch.part.holders);
    const double holders = group == nullptr ? 1 : group->size();
    holds.push_back({.parameter = &p,
                     .at = begin - state.first,
                     .where = stretch.where.Slice(begin - at, count),
                     .weight = stretch.part.partial ? state.weight : state.weight / holders,
                     .total = stretch.part.partial ? holders : 1});
  });
  return holds;
}

std::vector<NamedState> ReductionPipeline::States() const {
  std::vector<NamedState> all;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Bucket& bucket = entries_[i].bucket;
    for (ReducerState& state : StateOf(i)) {
      if (const nn::Parameter* p = state.parameter) {
        const uint64_t which = HashOf({{.parameter = p, .count = p->numel()}});
        all.push_back({StrCat(state.name, ".", which, ".", p->name()), std::move(state), {}});
      } else {
        std::vector<NamedState::Elements> holds = ElementsOf(bucket, state);
        std::string name =
            StrCat(state.name, ".", state.stage, ".bucket_", i, "_", HashOf(bucket.whole), "_", state.first);
        all.push_back({std::move(name), std::move(state), std::move(holds)});
      }
    }
  }
  return all;
}

}  // namespace twofold
