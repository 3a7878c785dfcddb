// What members tell each other when they form a new generation. As bytes: core/proto/elastic.proto.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/run/rank_context.h"
#include "strategies/elastic/redistribute.h"

namespace twofold::elastic {

// What a member has of the training.
struct Offer {
  bool trained = false;     // false: it is new or stood by, and has nothing
  bool prepared = false;    // it can do one more step on its own
  int64_t began = 0;        // steps with which the run began: of the checkpoint that it resumed from
  int64_t steps = 0;        // that it has done
  int64_t updates = 0;      // of the optimizer, in these steps
  int64_t samples = 0;      // of all these steps
  int64_t saved_steps = 0;  // of the last checkpoint that this run has saved; 0: none
  std::map<std::string, double> scalars = {};
  Pieces pieces = {};
  Pieces left_out = {};  // by gradient compression (left_out.h)
};
// What it needs for its place in the new generation.
struct Needs {
  Pieces pieces = {};
  Pieces left_out = {};
};
// From where the training goes on.
struct Start {
  int64_t steps = 0, samples = 0;
  std::string from = {};
  int64_t sequence_before = -1;  // of the last checkpoint in the folder when the run began; -1: not known
};

// Those of all members, by rank. Collective over the generation. Throw what RankContext::Exchange throws, and kOther if
// a member's bytes cannot be read.
std::vector<Offer> ExchangeAll(RankContext& ctx, const Offer& mine);
std::vector<Needs> ExchangeAll(RankContext& ctx, const Needs& mine);
std::vector<Start> ExchangeAll(RankContext& ctx, const Start& mine);

}  // namespace twofold::elastic
