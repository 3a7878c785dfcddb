#pragma once

#include <string>

#include "core/proto/report.pb.h"

namespace twofold {

// "loss 1.2345, accuracy 93.1 %"; with the perplexity for a language model.
std::string ValidationText(const report::Validation& validation);

}  // namespace twofold
