// Loads what reducers keep from step to step: what compression has left out of earlier messages, and momenta.
//
// On the ranks and buckets that saved them, a training goes on with the same values, to the bit. On others the sum over
// all ranks stays the same (reducer.h): of every element each rank takes an equal part of it. For residuals this is
// the mean over the ranks that saved them, plus what was left out of means themselves; so nothing that was left out is
// lost. Factors of a parameter (PowerSGD) are taken from any rank that had the same elements of it; where none had,
// they begin as in a new training.
#pragma once

#include "absl/status/status.h"
#include "core/run/rank_context.h"
#include "strategies/checkpoint/load.h"

namespace twofold::checkpoint {

// Adds a note to rank 0's record if the states are other ranks', or if there is nothing to take or nowhere to put it.
// Collective over all ranks; an error is one rank's alone.
absl::Status LoadReducers(RankContext& rank, Reader& reader, const Manifest& manifest, const ParameterLayout& layout);

}  // namespace twofold::checkpoint
