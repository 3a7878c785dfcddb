// One way to lay a job out over its ranks: what a plan chooses.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "core/proto/spec.pb.h"

namespace twofold::plan {

struct Layout {
  int64_t tp = 1, pp = 1, cp = 1, ep = 1, dp = 1;
  spec::Parallel::Sharding sharding = spec::Parallel::NO_SHARD;
  int64_t shard_group = 0;  // HYBRID_SHARD only; else 0
  spec::Parallel::PipelineSchedule schedule = spec::Parallel::ONE_F_ONE_B;
  int64_t virtual_stages = 1;
  int64_t micro_batch = 1;
  int64_t recompute = 0;   // activation_checkpointing.every; 0: off
  bool selective = false;  // of what is recomputed, only the attention scores
  spec::Parallel::Offload offload = spec::Parallel::NO_OFFLOAD;
  bool sequence_parallel = false;
  double bucket_mib = 25;  // NO_SHARD only
  std::string order = "pp dp cp tp";
  std::string codec;  // of spec::Compression's; "": gradients are not compressed
  friend bool operator==(const Layout&, const Layout&) = default;
};

// Writes the layout into a spec whose defaults are not filled in. What the layout leaves at its default is left out, so
// that the spec says only what was chosen.
void Apply(const Layout& layout, spec::Spec& spec);

// One line that FromLine reads back; for journals and processes. FromLine: INVALID_ARGUMENT if it is no layout's.
std::string ToLine(const Layout& layout);
absl::StatusOr<Layout> FromLine(const std::string& line);

// "tp 8 pp 4 dp 8 ZERO_1 interleaved x 2 mb 1 sp": only what is not plain. Different layouts have different texts.
std::string Describe(const Layout& layout);

// What the first layout has that the second has not: "tp 8 recompute 1 instead of tp 4", "without OFFLOAD_OPTIMIZER".
std::string Difference(const Layout& layout, const Layout& other);

}  // namespace twofold::plan
