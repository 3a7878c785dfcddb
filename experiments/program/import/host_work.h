// Work of a trace without a GPU: PyTorch's operations on the CPU take the place of kernels.
#pragma once

#include "experiments/program/import/rank_trace.h"

namespace twofold {

// Makes device spans of the operators among the host's ranges (`annotations`) and of Gloo's collectives. False, and
// nothing is changed, if there are none.
//
// Operators are nested: aten::linear calls aten::addmm, which copies. Each moment counts for the innermost one, so a
// span is a piece of an operator between those that it calls. What PyTorch's engine and the user's program do between
// operators counts for nothing: it is the host's. Operators within Optimizer.step carry its name. A thread is a stream.
bool TakeHostWork(RankTrace& trace);

}  // namespace twofold
