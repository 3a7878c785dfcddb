// A strategy: decentralised parallel SGD on a ring.
//
// Source: Lian et al. 2017, "Can Decentralized Algorithms Outperform Centralized Algorithms?", algorithm 1, with
// weights of one third for a rank and its two neighbours. Each rank takes a step on its own samples, then averages its
// parameters with those of its neighbours.
//
// Memory, a rank: parameters, gradients, and two buffers of the parameters' size for what the neighbours send.
// Communication, a rank and step: it sends its parameters to two neighbours, however many ranks there are.
#pragma once

#include <string>
#include <vector>

#include "core/data/dataset.h"
#include "core/run/rank_context.h"

struct RingAveraging {
  int steps = 100;
  int batch = 32;  // samples of a rank and step
  double learning_rate = 0.1;
};

// What a rank has to tell: the loss of its first and of its last step, how far its parameters are from the mean over
// all ranks (the largest difference), and the seconds that it took on the fabric's clock.
struct RankOutcome {
  double first_loss = 0, last_loss = 0, distance = 0, seconds = 0;
};

// Runs on every rank of any fabric, on at least 3 ranks. The bytes that Fabric::Run hands back hold a RankOutcome.
std::string TrainOnRing(twofold::RankContext& ctx, const twofold::Dataset& data, const RingAveraging& options);
RankOutcome OutcomeOf(const std::string& bytes);
