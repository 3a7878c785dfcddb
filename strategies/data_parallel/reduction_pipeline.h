// The one way that gradients take from the backward pass to the optimizer, in every layout of data parallelism. For
// each bucket, in the order in which the buckets are started:
//     1. the reducer's messages: the mean over the ranks that share the batch (reducer.h)
//     2. the mean is added to those of the step's earlier micro-batches (gradient_home.h)
//     3. in the last micro-batch: sums over the ranks of one copy of the model that hold the same elements and computed
//        only a part of their gradient (holder_sums.h). They come after the mean, so that only what a rank keeps is
//        summed. The result is the same, because the mean of sums is the sum of means. If the reducer's means are not
//        elementwise, copies of elements on several of these ranks are averaged, so that they stay copies
// Messages of different buckets overlap with each other and with computing. A layout chooses how far: after Start a
// bucket's first message is in flight, and each Advance moves every bucket to its next step.
//
// One object per rank, used from the rank's thread. Start, Advance and Finish are collective over the buckets' groups:
// all ranks call them in the same order.
#pragma once

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "strategies/data_parallel/gradient_home.h"
#include "strategies/data_parallel/holder_sums.h"
#include "strategies/data_parallel/reducer.h"

namespace twofold {

// Of the elements that these parts are. Others have another hash, even if there are as many.
uint64_t HashOf(const std::vector<optim::SlicePart>& parts);

// What a reducer keeps, and for which elements of which parameters.
struct NamedState {
  // "<name>.<stage>.<bucket>", or "<name>.<which elements>.<parameter>" if it is one parameter's. Says which elements.
  std::string name;
  ReducerState state;
  struct Elements {
    const nn::Parameter* parameter;
    int64_t at;    // the first one's place in the state
    Region where;  // in the whole parameter
    // Of this state in the sum that says what the model's gradient lacks, and the sum of these weights over all ranks
    // that have the element in a state of stage 0. Gradients of ranks that each computed a part are summed, so their
    // weights are; of ranks that have copies, they are averaged.
    double weight, total;
  };
  std::vector<Elements> holds;  // without padding; empty if it is one parameter's
};

class ReductionPipeline {
 public:
  // `ctx` and the groups behind `groups` must outlive it.
  ReductionPipeline(nn::Context& ctx, MakeReducer make_reducer, const ReplicaGroups& groups)
      : ctx_(ctx), make_reducer_(std::move(make_reducer)), groups_(groups) {}

  // Adds a bucket, whose index is the number of those before it.
  void Add(Bucket bucket, std::unique_ptr<GradientHome> home);
  // Whether Start does anything for this bucket: it is reduced or summed.
  bool Moves(size_t index) const { return Reduces(index) || !entries_[index].sums.empty(); }
  // The sums that follow the reduction of a bucket on a rank that keeps these parts of it.
  HolderSums SumsOf(size_t index, const std::vector<optim::SlicePart>& kept) const;
  // This rank stands for ranks that take fewer sums than one that keeps these parts: it takes those sums.
  void StandFor(size_t index, const std::vector<optim::SlicePart>& kept);
  bool Reduces(size_t index) const { return entries_[index].reducer != nullptr; }
  bool InPlace(size_t index) const { return Reduces(index) && entries_[index].reducer->in_place(); }
  bool Rounds(size_t index) const { return Reduces(index) && entries_[index].reducer->rounds(); }

  // Tells all reducers.
  void Attached(const Reducer::StateOf& state_of);

  // Forgets the gradients of the step before. `loss_scale`: the factor that those of this step will contain.
  void BeginStep(double loss_scale = 1);
  // Starts to reduce a bucket, which must not be in flight. `gradients`: whole, in the type in which they accumulate;
  // the reducer may overwrite them. `last`: of the step's micro-batches.
  void Start(size_t index, Tensor gradients, bool last);
  // Moves every bucket in flight to its next step, the oldest first. The compute stream waits for the messages before.
  void Advance();
  // The same for the buckets whose reducer has a further message to start. The others would make the compute stream
  // wait, which delays what follows more than their sums over holders, which are small and come with Finish.
  void AdvanceDependent();
  bool IsInFlight(size_t index) const;
  bool idle() const { return in_flight_.empty(); }  // nothing is left to advance
  // Advances until nothing is in flight. For work launched from now on, the sums are where they are kept.
  void Finish();
  // After Finish, if the step's update is skipped because gradients are not finite.
  void Skip();
  std::vector<ReducerState> StateOf(size_t index) const;
  std::vector<NamedState> States() const;  // of all buckets

 private:
  struct Entry {
    Bucket bucket;
    std::unique_ptr<Reducer> reducer;  // null if nothing is reduced
    std::unique_ptr<GradientHome> home;
    HolderSums sums;
  };
  struct InFlight {
    Entry* entry;
    bool last;
    Work work = {};                                 // the reducer's message
    Tensor gradients = {};                          // what is kept of the bucket, while its elements are summed
    std::vector<HolderSums::Sending> sending = {};  // these sums
  };
  std::vector<NamedState::Elements> ElementsOf(const Bucket& bucket, const ReducerState& state) const;
  void Step(InFlight flight);
  void Sum(InFlight flight, Tensor gradients);
  void StartSums(InFlight& flight) const { flight.sending = flight.entry->sums.Start(ctx_, flight.gradients); }

  nn::Context& ctx_;
  const MakeReducer make_reducer_;
  const ReplicaGroups groups_;
  std::deque<Entry> entries_;
  std::deque<InFlight> in_flight_;  // in the order in which they were started
  std::deque<InFlight> late_;       // their sums are across stages, so Finish starts and ends them
};

}  // namespace twofold
