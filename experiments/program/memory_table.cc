#include "experiments/program/memory_table.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "core/base/format.h"
#include "core/base/strings.h"
#include "experiments/program/assemble.h"
#include "experiments/program/device_facts.h"
#include "experiments/program/report/rank_records.h"
#include "experiments/program/spec/spec.h"
#include "strategies/from_spec.h"

namespace twofold {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string Whole(double bytes) { return CountText(std::llround(bytes)); }

// "rank 3", "each of ranks 0 to 3", "each of ranks 0, 1, 4, 5, ... (16)".
std::string RanksText(const RankKind& kind) {
  constexpr size_t kShown = 8;
  const std::vector<int>& ranks = kind.ranks;
  if (ranks.size() == 1) return StrCat("rank ", ranks[0]);
  if (ranks.back() - ranks[0] + 1 == static_cast<int>(ranks.size()))
    return StrCat("each of ranks ", ranks[0], " to ", ranks.back());
  const auto end = ranks.begin() + static_cast<std::ptrdiff_t>(std::min(kShown, ranks.size()));
  return StrCat("each of ranks ", absl::StrJoin(ranks.begin(), end, ", "),
                ranks.size() > kShown ? StrCat(", ... (", ranks.size(), ")") : "");
}

// "stage 1" or "stages 0 and 2" of the pipeline; "" without one.
std::string StagesText(const spec::Spec& spec, const RankKind& kind) {
  if (spec.parallel().pp() == 1) return "";
  const MeshShape mesh = MeshOf(spec.parallel());
  std::set<int> stages;
  for (const int rank : kind.ranks) stages.insert(PlaceOf(mesh, rank).pp);
  return StrCat(stages.size() == 1 ? ", stage " : ", stages ", absl::StrJoin(stages, ", "));
}

// "pp 2, dp 4": the axes with more than one rank; of asynchronous SGD, the servers, too.
std::string MeshText(const spec::Spec& spec) {
  const spec::Parallel& p = spec.parallel();
  const int64_t servers = spec.train().async_sgd().servers();
  std::vector<std::string> axes;
  for (const auto& [name, degree] :
       {std::pair{"pp", p.pp()}, {"dp", p.dp()}, {"cp", p.cp()}, {"tp", p.tp()}, {"ep", p.ep()}}) {
    if (degree > 1) axes.push_back(StrCat(name, " ", degree));
  }
  if (servers > 0) axes.push_back(Counted(servers, "server"));
  return absl::StrJoin(axes, ", ");
}

std::string KindText(const spec::Spec& spec, const RankKind& kind) {
  const report::Rank& memory = kind.record.memory();
  Rows rows = {
      {StrCat("Bytes of ", RanksText(kind), StagesText(spec, kind)), "at the peak", "own peak", "between steps"}};
  for (int c = 0; c < memory.categories_size(); ++c) {
    const report::Category& category = memory.categories(c);
    if (category.peak_bytes() == 0) continue;
    rows.push_back({category.name(), CountText(category.bytes_at_peak()), CountText(category.peak_bytes()),
                    CountText(kind.between.live_by_category[static_cast<size_t>(c)].value())});
  }
  rows.push_back(
      {"live", CountText(memory.peak_bytes()), CountText(memory.peak_bytes()), CountText(kind.between.live.value())});
  rows.push_back({"reserved", "", CountText(memory.reserved_bytes()), CountText(kind.between.reserved.value())});
  rows.push_back({"fragmentation", "", CountText(memory.reserved_bytes() - memory.peak_bytes()),
                  CountText((kind.between.reserved - kind.between.live).value()), "(reserved, not live)"});
  if (memory.host_peak_bytes() > 0) {
    rows.push_back({"host memory, live", "", CountText(memory.host_peak_bytes()),
                    CountText(kind.host_between.live.value()), "(offloaded)"});
    rows.push_back({"host memory, reserved", "", CountText(memory.host_reserved_bytes()),
                    CountText(kind.host_between.reserved.value())});
  }
  return TableText(rows);
}

// On the device and, if offloaded, in host memory.
int64_t BetweenSteps(const RankKind& kind, Category category) {
  const auto c = static_cast<size_t>(category);
  return (kind.between.live_by_category[c] + kind.host_between.live_by_category[c]).value();
}

// The memory between steps beyond the formula: rounding of blocks, and state outside the formula.
std::string DifferenceText(const MemoryStory& story, const RankKind& kind) {
  const spec::Parallel& parallel = story.spec.parallel();
  double formula = 0;
  int64_t live = 0, requested = 0;
  for (const StateFormula& s : story.states) {
    const auto c = static_cast<size_t>(s.category);
    formula += s.bytes(kind.record.parameters());
    live += BetweenSteps(kind, s.category);
    requested += (kind.between.requested_by_category[c] + kind.host_between.requested_by_category[c]).value();
  }
  return StrCat(
      "The difference: ", CountText(live - requested), " bytes by which blocks are larger than requested, and ",
      Whole(static_cast<double>(requested) - formula),
      " bytes requested beyond the formula, which leaves out padding of shards, buffers, and units that stay gathered",
      parallel.ep() > 1 && parallel.sharding() != spec::Parallel::NO_SHARD
          ? ", and assumes that experts are sharded over all N_d ranks, although only dp cp / ep ranks have the same "
            "ones"
          : "",
      story.spec.train().async_sgd().servers() > 0
          ? ", and the sums and inboxes for gradients that a parameter server keeps (docs/asynchronous_training.md)"
          : "",
      ".\n");
}

std::string StatesText(const MemoryStory& story) {
  const RankKind& kind = story.needed.largest();
  const int64_t psi = kind.record.parameters();
  Rows rows = {{"Model states between steps", "formula", "its bytes", "predicted", "difference"}};
  double formula = 0, here = 0;
  for (const StateFormula& s : story.states) {
    const auto live = static_cast<double>(BetweenSteps(kind, s.category));
    rows.push_back({s.what, s.ToString(), Whole(s.bytes(psi)), Whole(live), Whole(live - s.bytes(psi))});
    formula += s.bytes(psi), here += live;
  }
  rows.push_back({"total", "", Whole(formula), Whole(here), Whole(here - formula)});
  return StrCat("\n", TableText(rows), "psi = ", CountText(psi),
                psi == ParameterCount(*ModelOf(story.spec.model())) ? " parameters"
                                                                    : StrCat(" parameters, those of ", RanksText(kind)),
                ", K = ", story.states.back().bytes_per_parameter, ", N_d = ", story.states.back().ranks,
                " ranks share one copy of the state (Rajbhandari et al. 2020, ZeRO, section 3.1 and figure 1).\n",
                DifferenceText(story, kind));
}

// The pipeline stage of the kind of rank with the highest peak.
int StageOf(const MemoryStory& story) {
  return PlaceOf(MeshOf(story.spec.parallel()), story.needed.largest().ranks[0]).pp;
}

// How many micro-batches' activations a stage keeps in flight.
std::string InFlightText(const MemoryStory& story) {
  if (story.spec.parallel().pp() == 1) return "";
  const TrainingOptions options = TrainingOptionsOf(story.spec);
  const int most = pipeline::MostUnfinished(pipeline::ActionsOf(options.schedule, options.pipeline, StageOf(story)));
  return StrCat("Stage ", StageOf(story), " under ",
                spec::Parallel::PipelineSchedule_Name(story.spec.parallel().schedule()),
                " keeps the activations of up to ", most,
                options.pipeline.chunks > 1 ? " passes of a chunk"
                : most == 1                 ? " micro-batch"
                                            : " micro-batches",
                " at once.\n");
}

std::string ActivationsText(const MemoryStory& story) {
  Rows rows = {{"Activations kept of one micro-batch", "layers", "bytes"}};
  int64_t total = 0;
  for (const LayerActivations& row : story.layers) {
    rows.push_back({row.kind, CountText(row.count), CountText(row.bytes)});
    total += row.bytes;
  }
  rows.push_back({"total", "", CountText(total)});
  std::string text = StrCat("\n", TableText(rows), InFlightText(story));
  const std::optional<ActivationFormula> formula = KorthikantiFormula(story.spec, StageOf(story));
  if (!formula) return text;
  StrAppend(&text, "Korthikanti et al. 2022, table 2: ", formula->text, ": ", Whole(formula->bytes),
            " bytes. This spec differs:\n");
  for (const std::string& line : formula->differs) StrAppend(&text, "  ", line, "\n");
  return text;
}

nlohmann::ordered_json KindJson(const RankKind& kind) {
  const report::Rank& memory = kind.record.memory();
  nlohmann::ordered_json json = {{"ranks", kind.ranks},
                                 {"parameters", kind.record.parameters()},
                                 {"peak_bytes", memory.peak_bytes()},
                                 {"reserved_bytes", memory.reserved_bytes()},
                                 {"fragmentation_bytes", memory.reserved_bytes() - memory.peak_bytes()},
                                 {"host_peak_bytes", memory.host_peak_bytes()},
                                 {"host_reserved_bytes", memory.host_reserved_bytes()},
                                 {"between_steps_bytes", kind.between.live.value()},
                                 {"steps_replayed", kind.steps},
                                 {"settled", kind.settled},
                                 {"categories", nlohmann::ordered_json::array()}};
  for (int c = 0; c < memory.categories_size(); ++c) {
    const auto i = static_cast<size_t>(c);
    json["categories"].push_back(
        {{"name", memory.categories(c).name()},
         {"peak_bytes", memory.categories(c).peak_bytes()},
         {"bytes_at_peak", memory.categories(c).bytes_at_peak()},
         {"host_peak_bytes", c < memory.host_categories_size() ? memory.host_categories(c).peak_bytes() : 0},
         {"between_steps_bytes", kind.between.live_by_category[i].value()},
         {"between_steps_requested_bytes", kind.between.requested_by_category[i].value()},
         {"host_between_steps_bytes", kind.host_between.live_by_category[i].value()}});
  }
  return json;
}

nlohmann::ordered_json FrameworkJson(const report::FrameworkMemory& m) {
  nlohmann::ordered_json json = {
      {"allocated_bytes", m.allocated_bytes()},     {"reserved_bytes", m.reserved_bytes()},
      {"device_bytes", m.device_bytes()},           {"device_low_bytes", m.device_low_bytes()},
      {"device_high_bytes", m.device_high_bytes()}, {"least_device_bytes", m.least_device_bytes()},
      {"parts", nlohmann::ordered_json::array()}};
  for (const auto& part : m.parts()) json["parts"].push_back({{"name", part.name()}, {"bytes", part.bytes()}});
  return json;
}

// What the framework's process takes, from this program's peak on.
std::string FrameworkText(const MemoryStory& story, size_t k) {
  const report::FrameworkMemory& m = story.of_framework[k];
  Rows rows = {{StrCat("Under ", story.framework), "bytes"},
               {"live, as above", CountText(story.needed.kinds[k].record.memory().peak_bytes())}};
  for (const auto& part : m.parts()) rows.push_back({part.name(), CountText(part.bytes())});
  rows.push_back({"allocated", CountText(m.allocated_bytes()), "(its peak)"});
  rows.push_back({"reserved", CountText(m.reserved_bytes())});
  rows.push_back({"on the device", CountText(m.device_bytes()),
                  StrCat("(", CountText(m.device_low_bytes()), " to ", CountText(m.device_high_bytes()), ")")});
  rows.push_back({"on a full device", CountText(m.least_device_bytes()), "(at least)"});
  return TableText(rows);
}

}  // namespace

std::string MemoryText(const MemoryStory& story) {
  const spec::Spec& spec = story.spec;
  std::string text = StrCat(spec.name(), ": ", WorldSize(spec),
                            WorldSize(spec) == 1 ? " rank" : StrCat(" ranks (", MeshText(spec), ")"), ", ",
                            spec::Parallel::Sharding_Name(spec.parallel().sharding()), ", micro-batches of ",
                            spec.train().micro_batch(), ", ", CountText(ParameterCount(*ModelOf(spec.model()))),
                            " parameters, predicted\n", story.verdict.text);
  for (size_t k = 0; k < story.needed.kinds.size(); ++k) {
    const RankKind& kind = story.needed.kinds[k];
    StrAppend(&text, "\n", KindText(spec, kind));
    if (!story.of_framework.empty()) StrAppend(&text, FrameworkText(story, k));
    if (!kind.settled)
      StrAppend(&text, "After ", kind.steps,
                " steps the allocator's blocks were still changing: the run may reserve more than this.\n");
  }
  return text + StatesText(story) + ActivationsText(story);
}

nlohmann::ordered_json MemoryJson(const MemoryStory& story) {
  const MemoryVerdict& verdict = story.verdict;
  const int64_t psi = story.needed.largest().record.parameters();
  nlohmann::ordered_json json = {{"name", story.spec.name()},
                                 {"world_size", WorldSize(story.spec)},
                                 {"parameters", ParameterCount(*ModelOf(story.spec.model()))},
                                 {"fits", verdict.fits ? nlohmann::ordered_json(*verdict.fits) : nullptr},
                                 {"message", std::string(verdict.status.message())},
                                 {"device_bytes", story.prediction.rules.device.value()},
                                 {"machine_bytes", verdict.machine.value()},
                                 {"ranks", nlohmann::ordered_json::array()},
                                 {"model_states", nlohmann::ordered_json::array()},
                                 {"activations", nlohmann::ordered_json::array()}};
  if (!story.framework.empty()) json["framework"] = story.framework;
  for (size_t k = 0; k < story.needed.kinds.size(); ++k) {
    json["ranks"].push_back(KindJson(story.needed.kinds[k]));
    if (!story.of_framework.empty()) json["ranks"].back()["framework"] = FrameworkJson(story.of_framework[k]);
  }
  for (const StateFormula& s : story.states) {
    json["model_states"].push_back({{"category", CategoryName(s.category)},
                                    {"what", s.what},
                                    {"formula", s.ToString()},
                                    {"bytes_per_parameter", s.bytes_per_parameter},
                                    {"ranks", s.ranks},
                                    {"formula_bytes", s.bytes(psi)}});
  }
  for (const LayerActivations& row : story.layers) {
    json["activations"].push_back({{"kind", row.kind}, {"layers", row.count}, {"bytes", row.bytes}});
  }
  if (const auto formula = KorthikantiFormula(story.spec, StageOf(story))) {
    json["activation_formula"] = {{"text", formula->text}, {"bytes", formula->bytes}, {"differs", formula->differs}};
  }
  return json;
}

report::Report MemoryReport(const MemoryStory& story) {
  RunResult result{.status = story.verdict.status,
                   .results = {},
                   .notes = {"only memory was predicted, by a replay: there are no times"}};
  RankRecords records;
  std::vector<std::pair<int, size_t>> ranks;  // rank, and index of its record
  for (const RankKind& kind : story.prediction.kinds) {
    report::RankRecord record = kind.record;
    record.clear_steps(), record.clear_validations();
    const size_t kept = records.Keep(std::move(record));
    for (const int rank : kind.ranks) ranks.emplace_back(rank, kept);
  }
  std::sort(ranks.begin(), ranks.end());
  for (const auto& [rank, kept] : ranks) records.Add(rank, kept, /*traced=*/false);
  return Assemble(story.spec,
                  {.fabric = "replay",
                   .predicted = true,
                   .world_size = static_cast<int>(WorldSize(story.spec)),
                   .device = FactsOfDevice(story.spec).name},
                  result, records);
}

}  // namespace twofold
