// twofold schedule [NAME...] --stages=P --micro-batches=M
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/proto/other_names.h"
#include "core/proto/spec.pb.h"
#include "experiments/program/cli/log.h"
#include "experiments/program/commands.h"
#include "experiments/program/pictures/schedule_picture.h"
#include "experiments/program/pictures/schedule_story.h"
#include "experiments/program/pictures/style.h"
#include "experiments/program/report/files.h"
#include "experiments/program/report/json.h"
#include "strategies/pipeline/schedule.h"

namespace twofold {
namespace {

using pipeline::Action;
using pipeline::PipelineShape;
using pipeline::Schedule;

struct ScheduleOptions {
  std::vector<std::string> names;  // none: all
  int stages = 4, micro_batches = 8;
  std::optional<int> virtual_stages;
  std::string out;
  bool json = false;
};

using Named = std::pair<std::string, Schedule>;

// By the names in a spec.
const std::vector<Named>& All() {
  static const std::vector<Named> kAll = {{"GPIPE", Schedule::kGPipe},
                                          {"ONE_F_ONE_B", Schedule::kOneFOneB},
                                          {"INTERLEAVED_ONE_F_ONE_B", Schedule::kInterleaved},
                                          {"ZERO_BUBBLE_H1", Schedule::kZeroBubbleH1}};
  return kAll;
}

PipelineShape ShapeOf(Schedule schedule, const ScheduleOptions& o) {
  return {.stages = o.stages,
          .micro_batches = o.micro_batches,
          .chunks = schedule == Schedule::kInterleaved ? o.virtual_stages.value_or(2) : 1};
}

absl::Status CheckNumbers(const ScheduleOptions& o) {
  constexpr int kMost = 4096;
  for (const auto& [flag, value] : {std::pair{"--stages", o.stages},
                                    {"--micro-batches", o.micro_batches},
                                    {"--virtual-stages", o.virtual_stages.value_or(1)}}) {
    if (value >= 1 && value <= kMost) continue;
    return InvalidArgument(flag, " must be from 1 to ", kMost, " (got ", value, ")");
  }
  return absl::OkStatus();
}

std::vector<std::string> ScheduleNames() {
  std::vector<std::string> names;
  for (const Named& schedule : All()) names.push_back(schedule.first);
  return names;
}

absl::Status CheckShape(const Named& schedule, const ScheduleOptions& o) {
  const absl::Status s = pipeline::CheckSchedule(schedule.second, ShapeOf(schedule.second, o));
  return s.ok() ? s : InvalidArgument(schedule.first, ": ", std::string(s.message()));
}

// The named schedules; an error if one does not exist.
absl::StatusOr<std::vector<Named>> ThoseNamed(const ScheduleOptions& o) {
  const auto& field = *spec::Parallel::descriptor()->FindFieldByNumber(spec::Parallel::kScheduleFieldNumber);
  std::vector<Named> chosen;
  for (const std::string& name : o.names) {
    const auto found =
        std::find_if(All().begin(), All().end(), [&](const Named& schedule) { return schedule.first == name; });
    if (found == All().end()) {
      return InvalidArgument("unknown schedule \"", name, "\"", ValueSuggestion(name, field));
    }
    if (const absl::Status s = CheckShape(*found, o); !s.ok()) return s;
    chosen.push_back(*found);
  }
  return chosen;
}

// All schedules that are possible with these stages and micro-batches.
std::vector<Named> ThoseThatFit(const ScheduleOptions& o) {
  std::vector<Named> chosen;
  for (const Named& schedule : All()) {
    const absl::Status s = CheckShape(schedule, o);
    if (s.ok())
      chosen.push_back(schedule);
    else
      LogWarning("left out: ", s.message());
  }
  return chosen;
}

absl::StatusOr<std::vector<Named>> Choose(const ScheduleOptions& o) {
  if (const absl::Status s = CheckNumbers(o); !s.ok()) return s;
  if (o.names.empty()) return ThoseThatFit(o);
  absl::StatusOr<std::vector<Named>> chosen = ThoseNamed(o);
  const auto interleaved = [](const Named& schedule) { return schedule.second == Schedule::kInterleaved; };
  if (chosen.ok() && o.virtual_stages && std::none_of(chosen->begin(), chosen->end(), interleaved)) {
    return InvalidArgument("--virtual-stages=", *o.virtual_stages,
                           ": is only for INTERLEAVED_ONE_F_ONE_B; leave it out, or name that schedule too");
  }
  return chosen;
}

struct Drawn {
  pictures::ScheduleStory story;
  std::string text;             // for people
  nlohmann::ordered_json json;  // {name, micro_batches, chunks, forward_passes, bubble_fraction, stages: [...]}
};

// A schedule that was checked.
Drawn Draw(const Named& schedule, const ScheduleOptions& o) {
  const auto& [name, kind] = schedule;
  const PipelineShape shape = ShapeOf(kind, o);
  std::vector<std::vector<Action>> stages;
  for (int s = 0; s < shape.stages; ++s) stages.push_back(pipeline::ActionsOf(kind, shape, s));
  std::string title = StrCat(name, shape.chunks > 1 ? StrCat(", ", shape.chunks, " chunks per stage") : "");
  pictures::ScheduleStory story = pictures::StoryOf(stages, shape, std::move(title));
  const std::string bubble = absl::StrFormat("bubble %.1f %%", 100 * pictures::BubbleOf(story));
  std::string text = absl::StrFormat("%s: %g forward passes long, %s\n", story.title, story.end, bubble);
  nlohmann::ordered_json json = {{"name", name},
                                 {"micro_batches", shape.micro_batches},
                                 {"chunks", shape.chunks},
                                 {"forward_passes", story.end},
                                 {"bubble_fraction", pictures::BubbleOf(story)},
                                 {"stages", nlohmann::ordered_json::array()}};
  for (size_t s = 0; s < stages.size(); ++s) {
    std::vector<std::string> actions;
    for (const Action& action : stages[s]) actions.push_back(action.ToString());
    const int in_flight = pipeline::MostInFlight(stages[s]);
    absl::StrAppendFormat(&text, "  stage %d, at most %d in flight: %s\n", s, in_flight, absl::StrJoin(actions, " "));
    json["stages"].push_back({{"most_in_flight", in_flight}, {"actions", actions}});
  }
  story.title += StrCat(", ", bubble);
  return {std::move(story), std::move(text), std::move(json)};
}

absl::Status Run(const ScheduleOptions& o) {
  const absl::StatusOr<std::vector<Named>> schedules = Choose(o);
  if (!schedules.ok()) return schedules.status();
  if (absl::Status s = o.out.empty() ? absl::OkStatus() : CheckOutFile("--out", o.out); !s.ok()) return s;
  std::vector<pictures::ScheduleStory> stories;
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const Named& schedule : *schedules) {
    Drawn drawn = Draw(schedule, o);
    if (!o.json) std::printf("%s", drawn.text.c_str());
    stories.push_back(std::move(drawn.story));
    json.push_back(std::move(drawn.json));
  }
  if (o.json) std::printf("%s", JsonText(json).c_str());
  if (o.out.empty()) return absl::OkStatus();
  std::ofstream file(o.out, std::ios::binary);
  if (!(file << pictures::StandAlone(pictures::SchedulePicture(stories))) || !file.flush()) {
    return Internal("--out=", o.out, ": cannot be written");
  }
  if (!o.json) std::printf("%s\n", o.out.c_str());
  return absl::OkStatus();
}

}  // namespace

void AddScheduleCommand(const Command& program, int& exit_status) {
  auto options = std::make_shared<ScheduleOptions>();
  const Command command =
      program.AddCommand("schedule", "prints and draws pipeline schedules: what each stage does, and in which order");
  command
      .AddOption("NAME", options->names,
                 "schedules, as in parallel.schedule; default: all that are possible with these numbers")
      .Offers(ScheduleNames());
  command.AddOption("--stages=N", options->stages, "stages of the pipeline (parallel.pp); default 4");
  command.AddOption("--micro-batches=N", options->micro_batches, "micro-batches of a step; default 8");
  command.AddOption("--virtual-stages=N", options->virtual_stages,
                    "chunks on each stage, for INTERLEAVED_ONE_F_ONE_B; default 2");
  command.AddOption("--out=FILE", options->out,
                    "the picture (SVG) to write, one schedule above the other; default: none");
  command.AddFlag("--json", options->json, "print JSON: a list of schedules with the actions of each stage");
  command.Footer(
      "The unit of time is a forward pass of a stage. A backward pass takes 2 units: 1 for the gradient of the input\n"
      "and 1 for the gradients of the weights. A message takes no time.\n"
      "F3 is the forward pass of micro-batch 3, B3 its backward pass; I3 and W3 are the two halves of B3, for the\n"
      "input and for the weights; F3.1 is F3 of chunk 1.\n"
      "Exit status: 0 fine; 1 the picture cannot be written; 2 wrong input.\n"
      "\nExamples:\n  twofold schedule --out=schedules.svg\n  twofold schedule ZERO_BUBBLE_H1 --stages=8 "
      "--micro-batches=16");
  command.OnParsed([options, &exit_status] {
    const absl::Status status = Run(*options);
    if (status.ok()) return;
    LogError(status.message());
    exit_status = absl::IsInternal(status) ? kExitFailed : kExitWrongInput;
  });
}

}  // namespace twofold
