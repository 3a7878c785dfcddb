// A small job that stands for large ones, for pieces of their bounds (stage_pieces.h).
#pragma once

#include <cstdint>
#include <optional>

#include "core/proto/spec.pb.h"

namespace twofold::plan {

inline constexpr int kSmallStages = 3, kSmallMicroBatches = 3;

// After how many blocks the model and what is recomputed of it repeat themselves.
int64_t PeriodOf(const spec::Spec& spec);

// A job of three stages without replicas whose ranks work on a micro-batch as those of `spec` do, but for gathering
// parameters, reducing gradients and moving them to the host. Each stage has `periods` times the blocks after which the
// model repeats itself.
// Nullopt: the model has no repeating blocks.
std::optional<spec::Spec> SmallJob(const spec::Spec& spec, int64_t periods = 1);

}  // namespace twofold::plan
