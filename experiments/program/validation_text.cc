#include "experiments/program/validation_text.h"

#include <cmath>

#include "absl/strings/str_format.h"
#include "core/base/strings.h"

namespace twofold {

std::string ValidationText(const report::Validation& v) {
  return StrCat("loss ", absl::StrFormat("%.4f", v.loss()),
                std::isnan(v.accuracy()) ? absl::StrFormat(", perplexity %.4g", v.perplexity())
                                         : absl::StrFormat(", accuracy %.1f %%", 100 * v.accuracy()));
}

}  // namespace twofold
