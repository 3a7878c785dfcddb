#include "experiments/program/spec/models/rules.h"

#include <algorithm>
#include <string>

#include "core/base/strings.h"

namespace twofold {
namespace {

constexpr const ModelRules* kRules[] = {&kGptRules, &kLlamaRules, &kMoeRules, &kMlpRules, &kCnnRules};

// "4 or 8": the divisors of n next to x.
std::string DivisorsNear(int64_t n, int64_t x) {
  int64_t below = std::min(x - 1, n), above = x + 1;
  while (below > 1 && n % below != 0) --below;
  while (above < n && n % above != 0) ++above;
  if (above > n) return StrCat(below);
  return below < 1 ? StrCat(above) : StrCat(below, " or ", above);
}

}  // namespace

const ModelRules* FindModelRules(spec::Model::KindCase kind) {
  for (const ModelRules* row : kRules)
    if (row->kind == kind) return row;
  return nullptr;
}

void CheckDivides(std::string_view path, int64_t value, std::string_view whole_path, int64_t whole,
                  Problems& problems) {
  if (whole % value == 0) return;
  problems.Add(path, value, " does not divide ", whole_path, " = ", whole, "; use a divisor such as ",
               DivisorsNear(whole, value));
}

}  // namespace twofold
