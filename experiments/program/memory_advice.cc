#include "experiments/program/memory_advice.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "core/base/format.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

constexpr size_t kMostTogether = 3;  // changes at once
constexpr int kMostTries = 300;

using Sets = std::vector<std::string>;
using Kind = std::vector<Sets>;  // alternatives, of which a remedy takes one at most

Kind Shardings(const spec::Parallel& parallel) {
  Kind kind;
  if (parallel.dp() * parallel.cp() < 2 || parallel.sharding() == spec::Parallel::HYBRID_SHARD) return kind;
  for (int stage = parallel.sharding() + 1; stage <= spec::Parallel::FULL_SHARD; ++stage)
    kind.push_back({StrCat("parallel.sharding=ZERO_", stage)});
  return kind;
}

Kind TensorParallel(const spec::Parallel& parallel) {
  Kind kind;
  for (const int64_t more : {2, 4, 8}) {
    if (parallel.dp() % more == 0)
      kind.push_back({StrCat("parallel.tp=", parallel.tp() * more), StrCat("parallel.dp=", parallel.dp() / more)});
  }
  return kind;
}

std::vector<Kind> KindsFor(const spec::Spec& spec) {
  const spec::Train& train = spec.train();
  std::vector<Kind> kinds = {Shardings(spec.parallel()), TensorParallel(spec.parallel())};
  if (train.precision().parameter() == spec::F32)
    kinds.push_back({{"train.precision={ parameter: BF16 reduce: BF16 }"}});
  if (train.activation_checkpointing().every() == 0) kinds.push_back({{"train.activation_checkpointing={ every: 1 }"}});
  if (spec.parallel().offload() == spec::Parallel::NO_OFFLOAD)
    kinds.push_back({{"parallel.offload=OFFLOAD_OPTIMIZER"}, {"parallel.offload=OFFLOAD_ALL"}});
  Kind smaller;
  for (const int64_t less : {2, 4}) {
    if (train.micro_batch() % less == 0)
      smaller.push_back({StrCat("train.micro_batch=", train.micro_batch() / less),
                         StrCat("train.global_batch=", train.global_batch())});
  }
  kinds.push_back(std::move(smaller));
  return kinds;
}

// All choices of `count` kinds, with an alternative of each.
void Choose(const std::vector<Kind>& kinds, size_t from, size_t count, const Sets& chosen, std::vector<Sets>& out) {
  if (count == 0) return out.push_back(chosen);
  for (size_t k = from; k + count <= kinds.size(); ++k) {
    for (const Sets& alternative : kinds[k]) {
      Sets more = chosen;
      more.insert(more.end(), alternative.begin(), alternative.end());
      Choose(kinds, k + 1, count - 1, more, out);
    }
  }
}

bool Contains(const Sets& sets, const Sets& part) {
  return std::all_of(part.begin(), part.end(),
                     [&](const std::string& set) { return std::find(sets.begin(), sets.end(), set) != sets.end(); });
}

}  // namespace

MemoryAdvice AdviseOnMemory(const spec::Spec& spec, const FitsWith& fits, const TimesWith& times) {
  MemoryAdvice advice;
  const std::vector<Kind> kinds = KindsFor(spec);
  std::vector<MemoryRemedy>& found = advice.remedies;
  for (size_t count = 1; count <= kMostTogether && found.size() < kMostRemedies; ++count) {
    std::vector<Sets> choices;
    Choose(kinds, 0, count, {}, choices);
    const size_t before = found.size();  // what these do alone needs nothing more
    for (const Sets& sets : choices) {
      if (advice.tried == kMostTries) break;
      if (std::any_of(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(before),
                      [&](const MemoryRemedy& remedy) { return Contains(sets, remedy.sets); }))
        continue;
      const absl::StatusOr<std::optional<int64_t>> reserved = fits(sets);
      if (!reserved.ok()) continue;  // the fields contradict each other
      ++advice.tried;
      if (reserved->has_value()) found.push_back({.sets = sets, .reserved_bytes = **reserved});
    }
  }
  advice.fitting = static_cast<int>(found.size());
  if (found.size() > kMostTimed) found.resize(kMostTimed);
  if (found.empty()) return advice;
  std::vector<Sets> changes = {{}};
  for (const MemoryRemedy& remedy : found) changes.push_back(remedy.sets);
  const std::vector<double> seconds = times(changes);
  advice.seconds = seconds[0];
  for (size_t i = 0; i < found.size(); ++i) found[i].seconds = seconds[i + 1];
  std::stable_sort(found.begin(), found.end(), [](const MemoryRemedy& a, const MemoryRemedy& b) {
    return std::pair(a.seconds <= 0, a.seconds) < std::pair(b.seconds <= 0, b.seconds);
  });
  if (found.size() > kMostRemedies) found.resize(kMostRemedies);
  return advice;
}

std::string MemoryAdviceText(const MemoryAdvice& advice) {
  if (advice.remedies.empty())
    return StrCat("None of ", advice.tried,
                  " changes that were tried makes it fit (BF16, recomputation, ZeRO, tp, offload, "
                  "smaller micro-batches); use more ranks, or a smaller model.\n");
  std::vector<std::vector<std::string>> rows = {{"It would fit with", "reserved", "step time", "cost"}};
  if (advice.seconds > 0) rows.push_back({"(as it is, with enough memory)", "", SecondsText(advice.seconds), ""});
  for (const MemoryRemedy& remedy : advice.remedies) {
    std::vector<std::string> words;
    for (const std::string& set : remedy.sets)
      words.push_back(set.find(' ') == std::string::npos ? StrCat("--set=", set) : StrCat("'--set=", set, "'"));
    const bool timed = remedy.seconds > 0;
    rows.push_back({absl::StrJoin(words, " "), BytesText(static_cast<double>(remedy.reserved_bytes)),
                    timed ? SecondsText(remedy.seconds) : "-",
                    timed && advice.seconds > 0 ? PercentText(remedy.seconds / advice.seconds - 1) : "-"});
  }
  std::string text = TableText(rows);
  if (advice.fitting > static_cast<int>(kMostTimed))
    StrAppend(&text, "These are the fastest of the first ", kMostTimed, " of ", advice.fitting,
              " changes that make it fit.\n");
  return text;
}

nlohmann::ordered_json MemoryAdviceJson(const MemoryAdvice& advice) {
  nlohmann::ordered_json json{{"seconds", advice.seconds},
                              {"tried", advice.tried},
                              {"fitting", advice.fitting},
                              {"remedies", nlohmann::ordered_json::array()}};
  for (const MemoryRemedy& r : advice.remedies)
    json["remedies"].push_back({{"set", r.sets}, {"reserved_bytes", r.reserved_bytes}, {"seconds", r.seconds}});
  return json;
}

}  // namespace twofold
