#include "experiments/program/workload/steps.h"

#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "core/run/execution_graph.h"

namespace twofold {
namespace {

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

// Of "step 3 begins", given " begins": 3.
std::optional<int64_t> StepOf(absl::string_view name, absl::string_view what) {
  int64_t step = 0;
  if (!absl::ConsumePrefix(&name, View(kStepMark)) || !absl::ConsumeSuffix(&name, what) ||
      !absl::SimpleAtoi(name, &step))
    return std::nullopt;
  return step;
}

}  // namespace

std::vector<std::pair<double, double>> StepSpans(const std::vector<WorkloadNode>& nodes,
                                                 const std::vector<double>& ends) {
  std::vector<std::pair<double, double>> steps;
  std::optional<int64_t> first;
  double began = 0;
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (nodes[n].kind != WorkloadNode::kMark) continue;
    if (const std::optional<int64_t> step = StepOf(nodes[n].name, View(kBeginsMark))) first = step, began = ends[n];
    const std::optional<int64_t> last = StepOf(nodes[n].name, View(kEndsMark));
    if (!last || !first || *last < *first || *last - *first > 1'000'000) continue;
    const double each = (ends[n] - began) / static_cast<double>(*last - *first + 1);
    for (int64_t i = 0; i <= *last - *first; ++i)
      steps.emplace_back(began + static_cast<double>(i) * each, began + static_cast<double>(i + 1) * each);
    first.reset();
  }
  return steps;
}

}  // namespace twofold
