// The space of a plan: every legal layout of a job on so many ranks.
//
// What the spec says is fixed; what it leaves out is free. Free axes take
//   tp, pp, cp, ep   every divisor of the number of ranks (cp, ep: only for models that have sequences, experts);
//                    dp is what is left
//   sharding         all five; HYBRID_SHARD with groups as large as a node's part of dp, and of 32 ranks
//   schedule         all four; interleaved with 2 to 8 virtual stages whose parts have equally many layers, or with 2
//                    and 3 where no number of virtual stages has that
//   micro-batch      powers of two up to 8
//   recomputation    off, every block; of the attention scores alone, where they are stored
//   offload, sequence parallelism, buckets of 25 and 100 MiB
//   order of axes    "pp dp cp tp", and "dp pp cp tp" where that places ranks differently
//   codec            none, and those that are asked for
//
// Legal is what Validate (experiments/program/spec/spec.h) accepts; there are no rules here. A combination of tp, pp,
// cp, ep, schedule, virtual stages, micro-batch and sequence parallelism is first validated with everything else at its
// plainest. Where that is refused, all that differ in the rest alone are, and they are counted together.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/proto/spec.pb.h"
#include "experiments/program/plan/layout.h"

namespace twofold::plan {

struct Question {
  // As the user wrote it, with the model's sizes and the framework's defaults; other defaults are not filled in.
  spec::Spec given;
  std::string file;  // begins errors
  int64_t ranks = 1, ranks_per_node = 1;
  std::vector<std::string> codecs = {};  // of spec::Compression, to be tried besides none
  bool early_stop = false;    // what the framework does where a layout recomputes, and the spec leaves that open
  bool keep_weights = false;  // likewise, with products in FP8, where a layout's weights stay
};

struct Refusal {
  int64_t count = 0;
  std::string example;  // of the message
};

struct Space {
  int64_t legal = 0, combinations = 0;     // combinations: legal and refused
  std::map<std::string, Refusal> refused;  // by reason: the field, and the message without its numbers
};

// A part of the space: those combinations of tp, cp, ep, micro-batch and sequence parallelism whose turn it is. Parts
// are about equal, and layouts that share most of a bound (bound.h) are in one part.
struct Slice {
  int index = 0, of = 1;
};

// Calls `visit` for each legal layout, in a fixed order, with its resolved spec.
using Visit = std::function<void(const Layout& layout, const spec::Spec& spec)>;
Space Enumerate(const Question& question, const Slice& slice, const Visit& visit);
// Adds what another slice found.
void Add(const Space& other, Space& space);
// INVALID_ARGUMENT with the most frequent reason if no layout is legal.
absl::Status CheckAny(const Question& question, const Space& space);

// The spec of a layout, with all defaults; not validated.
spec::Spec SpecOf(const Question& question, const Layout& layout);

}  // namespace twofold::plan
