#include "experiments/program/plan/layouts_csv.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/strings.h"

namespace twofold::plan {
namespace {

using spec::Parallel;

std::string_view NameOf(Judged::Fate fate) {
  constexpr std::string_view kNames[] = {"does not fit", "slower", "open", "simulated"};
  return kNames[fate];
}

std::string Exactly(double value) { return nlohmann::json(value).dump(); }

std::string Choices(const Layout& l) {
  return StrCat(Describe(l), ",", l.tp, ",", l.pp, ",", l.cp, ",", l.ep, ",", l.dp, ",",
                Parallel::Sharding_Name(l.sharding), ",", Parallel::PipelineSchedule_Name(l.schedule), ",",
                l.virtual_stages, ",", l.micro_batch, ",", l.recompute, ",", l.selective ? "true" : "false", ",",
                Parallel::Offload_Name(l.offload), ",", l.sequence_parallel ? "true" : "false");
}

}  // namespace

std::string LayoutsCsv(const Plan& plan) {
  std::map<std::string, const Simulated*> simulated;
  for (const std::vector<Simulated>* some : {&plan.ranked, &plan.too_large, &plan.failed}) {
    for (const Simulated& s : *some) simulated[ToLine(s.layout)] = &s;
  }
  struct Line {
    const Judged* judged;
    const Simulated* simulated;
    bool Fits() const { return simulated != nullptr && simulated->fits; }
    double seconds() const { return Fits() ? simulated->seconds : judged->least_seconds; }
  };
  std::vector<Line> lines;
  lines.reserve(plan.judged.size());
  for (const Judged& judged : plan.judged) {
    const auto at = judged.fate == Judged::kSimulated ? simulated.find(ToLine(judged.layout)) : simulated.end();
    lines.push_back({&judged, at == simulated.end() ? nullptr : at->second});
  }
  std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) {
    return std::pair(!a.Fits(), a.seconds()) < std::pair(!b.Fits(), b.seconds());
  });
  std::string csv =
      "layout,tp,pp,cp,ep,dp,sharding,schedule,virtual_stages,micro_batch,recompute,selective,offload,sequence_"
      "parallel,"
      "fate,least_seconds,least_bytes,seconds,low,high,bytes,tokens_per_second,mfu,bubble,exposed_seconds,extended,"
      "folding_adds\n";
  for (const Line& line : lines) {
    const bool too_large = line.simulated != nullptr && !line.simulated->fits && !line.simulated->failed;
    StrAppend(&csv, Choices(line.judged->layout), ",", NameOf(too_large ? Judged::kDoesNotFit : line.judged->fate), ",",
              line.judged->least_seconds, ",", line.judged->least_bytes);
    if (line.Fits()) {
      const Simulated& s = *line.simulated;
      StrAppend(&csv, ",", Exactly(s.seconds), ",", Exactly(s.low), ",", Exactly(s.high), ",", s.bytes, ",",
                Exactly(s.tokens_per_second), ",", Exactly(s.mfu), ",", Exactly(s.bubble), ",", Exactly(s.exposed), ",",
                s.extended ? "true" : "false", ",", Exactly(s.folding_adds), "\n");
    } else {
      csv += ",,,,,,,,,,\n";
    }
  }
  return csv;
}

}  // namespace twofold::plan
