// Elastic training: ranks may be lost and may join while the run trains. Training goes on with those that are there.
//   Jang et al. 2023, "Oobleck", SOSP, and Wang et al. 2023, "GEMINI", SOSP: recovery without a checkpoint.
//   Goyal et al. 2017, "Accurate, Large Minibatch SGD": section 2.1 (the learning rate follows the batch).
//
// A step has two parts. In the first, ranks compute gradients and sum them. In the second, each rank updates what it
// holds, without any other. A barrier of all members is between them: a step is committed when some rank has passed it.
// Then every rank has all that its update needs. If a rank is lost before, no rank has changed anything, and the step
// is done again; if it is lost after, every other rank does its update, and the step counts. So all survivors agree on
// the step, and no step is done by some ranks alone.
//
// After a loss the survivors form the next generation (core/run/membership.h). The largest number of replicas that the
// options allow trains; further members stand by. Members tell what they hold, and the new layout is filled in from
// them (redistribute.h). That needs a copy of every element: DDP and HYBRID_SHARD have them; ZeRO-1 to 3 have them with
// shard_copies (shard_copy.h), else the last checkpoint is loaded. Newcomers come in between two steps.
//
// Promises:
//   samples        with a constant global batch, the sequence of batches is that of an undisturbed run: every sample of
//                  an epoch is used once. With a constant batch per rank, epochs follow one another without gaps, and
//                  each sample of an epoch is used once, too. A step that was not committed is done again with the same
//                  samples
//   parameters     after the step that was committed last (from peers), or of the last checkpoint. Optimizer state and
//                  the loss scale go with them. Batch norm's running statistics are one survivor's where a rank has
//                  none
//   memory         while the state moves, a rank holds the old one and the new one
//   communication  a barrier a step; after a change, what the new layout of a rank holds and the old one did not
//   compression    each rank keeps what it has left out of gradients (strategies/elastic/left_out.h)
//   not promised   a lost rank's traces; sums in another order than with the old number of ranks
#pragma once

#include <functional>
#include <string>

#include "strategies/trainer.h"

namespace twofold {

// TrainRank for options with `elastic`, on a fabric whose runs have generations.
std::string TrainElastic(RankContext& ctx, const TrainingOptions& options, const Samples& samples,
                         const std::function<void(const StepProgress&)>& progress, const checkpoint::Opened* read);

}  // namespace twofold
