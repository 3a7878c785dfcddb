// twofold schedule [NAME...] --stages=P --micro-batches=M
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/strings.h"
#include "core/proto/spec.pb.h"
#include "experiments/pictures/schedule_picture.h"
#include "experiments/pictures/schedule_story.h"
#include "experiments/pictures/style.h"
#include "experiments/program/commands.h"
#include "spdlog/spdlog.h"
#include "strategies/pipeline/schedule.h"

namespace twofold {
namespace {

using pipeline::Action;
using pipeline::Schedule;
using pipeline::Shape;

struct Options {
  std::vector<std::string> names;
  int stages = 4, micro_batches = 8, virtual_stages = 2;
  std::string out;
};

// By a spec's name; none: it is not one.
const std::pair<const char*, Schedule>* Find(const std::string& name) {
  static constexpr std::pair<const char*, Schedule> kAll[] = {{"GPIPE", Schedule::kGPipe},
                                                              {"ONE_F_ONE_B", Schedule::kOneFOneB},
                                                              {"INTERLEAVED_ONE_F_ONE_B", Schedule::kInterleaved},
                                                              {"ZERO_BUBBLE_H1", Schedule::kZeroBubbleH1}};
  for (const auto& schedule : kAll) {
    if (name == schedule.first) return &schedule;
  }
  return nullptr;
}

Shape ShapeOf(Schedule schedule, const Options& o) {
  return {.stages = o.stages, .micro_batches = o.micro_batches, .chunks = schedule == Schedule::kInterleaved ? o.virtual_stages : 1};
}

absl::Status Check(const Options& o) {
  constexpr int kMost = 4096;
  for (const auto& [flag, value] : {std::pair{"--stages", o.stages}, {"--micro-batches", o.micro_batches}, {"--virtual-stages", o.virtual_stages}}) {
    if (value >= 1 && value <= kMost) continue;
    return absl::InvalidArgumentError(StrCat(flag, "=", value, ": use a whole number from 1 to ", kMost));
  }
  for (const std::string& name : o.names) {
    const auto* found = Find(name);
    if (found == nullptr) {
      return absl::InvalidArgumentError(
          StrCat("\"", name, "\" is no schedule; use GPIPE, ONE_F_ONE_B, INTERLEAVED_ONE_F_ONE_B or ZERO_BUBBLE_H1"));
    }
    if (const absl::Status s = pipeline::CheckSchedule(found->second, ShapeOf(found->second, o)); !s.ok()) {
      return absl::InvalidArgumentError(StrCat(name, ": ", std::string(s.message())));
    }
  }
  return absl::OkStatus();
}

// Prints a schedule, which was checked, and returns it as it is drawn.
pictures::ScheduleStory Print(const std::string& name, const Options& o) {
  const auto* found = Find(name);
  const Shape shape = ShapeOf(found->second, o);
  std::vector<std::vector<Action>> stages;
  for (int s = 0; s < shape.stages; ++s) stages.push_back(pipeline::ActionsOf(found->second, shape, s));
  std::string title = StrCat(name, shape.chunks > 1 ? StrCat(", ", shape.chunks, " chunks a stage") : "");
  pictures::ScheduleStory story = pictures::StoryOf(stages, shape, std::move(title));
  const std::string bubble = absl::StrFormat("bubble %.1f %%", 100 * pictures::BubbleOf(story));
  std::printf("%s: %g forward passes long, %s\n", story.title.c_str(), story.end, bubble.c_str());
  for (size_t s = 0; s < stages.size(); ++s) {
    const auto append = [](std::string* out, const Action& a) { out->append(a.ToString()); };
    std::printf("  stage %zu, at most %d in flight: %s\n", s, pipeline::MostInFlight(stages[s]), absl::StrJoin(stages[s], " ", append).c_str());
  }
  story.title += StrCat(", ", bubble);
  return story;
}

absl::Status Run(const Options& o) {
  if (absl::Status s = Check(o); !s.ok()) return s;
  std::vector<pictures::ScheduleStory> stories;
  for (const std::string& name : o.names) stories.push_back(Print(name, o));
  if (o.out.empty()) return absl::OkStatus();
  std::ofstream file(o.out, std::ios::binary);
  if (!(file << pictures::StandAlone(pictures::SchedulePicture(stories))) || !file.flush()) {
    return absl::InternalError(StrCat(o.out, ": cannot be written"));
  }
  std::printf("%s\n", o.out.c_str());
  return absl::OkStatus();
}

}  // namespace

void AddScheduleCommand(CLI::App& app, int& exit_status) {
  auto options = std::make_shared<Options>();
  options->names = {"GPIPE", "ONE_F_ONE_B", "INTERLEAVED_ONE_F_ONE_B", "ZERO_BUBBLE_H1"};
  CLI::App* command = app.add_subcommand("schedule", "prints and draws what each stage of a pipeline does, by schedule");
  command->add_option("names", options->names, "as parallel.schedule has them; default: all four");
  command->add_option("--stages", options->stages, "of the pipeline (parallel.pp); default 4");
  command->add_option("--micro-batches", options->micro_batches, "of a step; default 8");
  command->add_option("--virtual-stages", options->virtual_stages, "chunks on each stage, where interleaved; default 2");
  command->add_option("--out", options->out, "a picture to write (SVG), one schedule above the other; default: none");
  command->footer("Messages take no time here, a forward pass of a stage takes 1, its backward pass 2 (each half of it 1).\n"
                  "F3: forward pass of micro-batch 3; B3: backward; I3, W3: the gradients of the input and of the weights; F3.1: chunk 1.\n"
                  "Examples:\n  twofold schedule --out=schedules.svg\n  twofold schedule ZERO_BUBBLE_H1 --stages=8 --micro-batches=16");
  command->callback([options, &exit_status] {
    const absl::Status status = Run(*options);
    if (status.ok()) return;
    spdlog::error("{}", std::string(status.message()));
    exit_status = absl::IsInternal(status) ? kExitFailed : kExitWrongInput;
  });
}

}  // namespace twofold
