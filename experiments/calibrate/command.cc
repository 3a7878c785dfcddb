#include "experiments/calibrate/command.h"

#include <sys/utsname.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "backends/launch.h"
#include "backends/registry.h"
#include "experiments/calibrate/measure_kernels.h"
#include "experiments/calibrate/measure_links.h"
#include "experiments/calibrate/measure_messages.h"
#include "experiments/calibrate/profile_from.h"
#include "experiments/calibrate/samples.h"
#include "experiments/calibrate/table.h"
#include "google/protobuf/text_format.h"
#include "sim/cost/read_profile.h"
#include "spdlog/spdlog.h"

namespace twofold {
namespace {

using namespace calibrate;

struct Options {
  std::string device = "cpu", fabric = "in_memory", out = kThisMachineProfile;
  int threads = 1;
  bool quick = false;
};

// The name that the processor gives itself, else its architecture.
std::string ProcessorName() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  utsname names{};
  return uname(&names) == 0 ? names.machine : "unknown";
}

std::string Now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

absl::Status CheckOptions(const Options& o) {
  if (o.device != "cpu") {
    return absl::InvalidArgumentError(absl::StrCat("--device=", o.device, ": this build measures cpu"));
  }
  const Backend* fabric = FindBackend(o.fabric);
  if (fabric == nullptr || (o.fabric != "in_memory" && fabric->launcher(2).empty())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--fabric=", o.fabric, ": in_memory is right (kernels and links of this machine), or a fabric whose ranks are processes"));
  }
  if (const std::string reason = fabric->why_not(); !reason.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--fabric=", o.fabric, ": ", reason));
  }
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  if (o.threads < 1 || o.threads > cores) {
    return absl::InvalidArgumentError(
        absl::StrCat("--threads=", o.threads, ": 1 to ", cores, " is right, the cores of this machine"));
  }
  return absl::OkStatus();
}

// Runs `fn` on a new fabric of `ranks` ranks and returns what all ranks measured, row by row.
absl::StatusOr<Samples> RunOn(int ranks, int threads, const RankFunction& fn) {
  spec::Spec spec;
  spec.mutable_fabric()->mutable_in_memory();
  spec.mutable_parallel()->set_dp(ranks);
  spec.mutable_train()->set_threads_per_rank(threads);
  auto fabric = MakeFabric(spec);
  if (!fabric.ok()) return fabric.status();
  const RunResult result = (*fabric)->Run(ranks, fn);
  if (!result.status.ok()) return absl::InternalError(result.status.message());
  Samples samples;
  for (const std::string& bytes : result.results) Append(samples, Unpack(bytes));
  return samples;
}

absl::Status MeasureKernelsInto(const Options& o, int ranks, profile::Profile& profile) {
  const auto cases = std::make_shared<std::vector<Case>>(Cases(o.quick));
  KernelPlan plan;
  plan.cases = *cases;
  plan.budget = Seconds(o.quick ? 4 : 30);
  plan.most_rounds = o.quick ? 5 : 9;
  plan.progress = [](int round, int rounds, Seconds left) {
    std::cerr << absl::StrFormat("kernels: round %d of %d, about %.0f s left\n", round, rounds, left.value());
  };
  std::cerr << absl::StrFormat("kernels: %d cases on %d ranks of %d thread%s at once, warming up\n", cases->size(), ranks,
                               o.threads, o.threads == 1 ? "" : "s");
  auto samples = RunOn(ranks, o.threads, [&plan](RankContext& ctx) { return MeasureKernels(ctx, plan); });
  if (!samples.ok()) return samples.status();
  // The cases again, as shapes alone, for what they are called and cost.
  std::vector<ops::KernelKey> keys;
  std::vector<ops::Cost> costs;
  ShapesOnly shapes;
  for (const Case& c : *cases) {
    const ops::Op op = c.make(shapes);
    keys.push_back(ops::Key(op)), costs.push_back(ops::CostOf(op));
  }
  AddKernels(keys, costs, *samples, profile);
  profile.set_source(absl::StrFormat("measured by `twofold calibrate%s`: %d ranks of %d thread%s at once, %d rounds",
                                     o.quick ? " --quick" : "", ranks, o.threads, o.threads == 1 ? "" : "s",
                                     samples->front().size() / static_cast<size_t>(ranks)));
  return absl::OkStatus();
}

absl::Status Write(const profile::Profile& profile, const std::string& path) {
  const std::filesystem::path target(path);
  std::error_code error;
  if (target.has_parent_path()) std::filesystem::create_directories(target.parent_path(), error);
  std::string text;
  google::protobuf::TextFormat::PrintToString(profile, &text);
  const std::string part = path + ".part";
  std::ofstream(part) << "# proto-message: twofold.profile.Profile\n" << text;
  std::filesystem::rename(part, target, error);
  if (error) return absl::InvalidArgumentError(absl::StrCat("--out=", path, ": cannot be written (", error.message(), ")"));
  return absl::OkStatus();
}

// Messages between processes: added to the profile that is there, whose kernels and other links stay as they are.
absl::Status CalibrateMessages(const Options& o) {
  const Launch launch = LaunchedAs();
  if (launch.size < 2) {
    return absl::InvalidArgumentError(absl::StrCat("--fabric=", o.fabric, ": two processes or more are needed; start it with `twofold launch --ranks=2 --fabric=",
                                                   o.fabric, " -- calibrate` or under mpirun"));
  }
  spec::Spec spec;
  spec::Fabric* fabric_spec = spec.mutable_fabric();
  fabric_spec->GetReflection()->MutableMessage(fabric_spec, fabric_spec->GetDescriptor()->FindFieldByName(o.fabric));
  spec.mutable_parallel()->set_dp(launch.size);
  auto fabric = MakeFabric(spec);
  if (!fabric.ok()) return fabric.status();
  if (launch.rank == 0) std::cerr << "messages: " << launch.size << " ranks on " << o.fabric << "\n";
  const int rounds = o.quick ? 9 : 31;
  const RunResult result = (*fabric)->Run(launch.size, [rounds](RankContext& ctx) { return MeasureMessages(ctx, rounds); });
  if (!result.status.ok()) return absl::InternalError(result.status.message());
  if (!(*fabric)->speaks()) return absl::OkStatus();

  profile::Profile profile;
  if (std::filesystem::exists(o.out)) {
    absl::StatusOr<profile::Profile> read = ReadProfile(o.out);
    if (!read.ok()) return read.status();
    profile = *std::move(read);
  } else {
    profile.set_name("this-machine");
    profile.set_source("measured by `twofold calibrate`");
    profile.set_created(Now());
    profile.set_processor(ProcessorName());
  }
  profile::MessagePassing links;
  links.ParseFromString(result.results[0]);
  links.set_fabric(o.fabric);
  auto* all = profile.mutable_message_passing();
  all->erase(std::remove_if(all->begin(), all->end(), [&](const auto& l) { return l.fabric() == o.fabric; }), all->end());
  *all->Add() = links;
  if (absl::Status s = Write(profile, o.out); !s.ok()) return s;
  std::cout << MessageTableText(links) << "\n" << o.out << "\n";
  if (profile.kernels_size() == 0) std::cout << "note: the profile has no kernels yet: `twofold calibrate --out=" << o.out << "` measures them\n";
  return absl::OkStatus();
}

absl::Status Calibrate(const Options& o) {
  if (absl::Status s = CheckOptions(o); !s.ok()) return s;
  if (o.fabric != "in_memory") return CalibrateMessages(o);
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const int ranks = std::max(1, cores / o.threads);
  profile::Profile profile;
  profile.set_name("this-machine");
  profile.set_created(Now());
  profile.set_processor(ProcessorName());
  profile.set_cores(cores);
  if (absl::Status s = MeasureKernelsInto(o, ranks, profile); !s.ok()) return s;

  const int linked = std::max(2, ranks);
  std::cerr << "links: " << linked << " ranks\n";
  const int rounds = o.quick ? 9 : 51;
  const auto links = RunOn(linked, o.threads, [rounds](RankContext& ctx) { return MeasureLinks(ctx, rounds); });
  if (!links.ok()) return links.status();
  AddLinks(*links, linked, profile);
  if (const auto before = ReadProfile(o.out); before.ok()) {  // what was measured of other fabrics stays
    *profile.mutable_message_passing() = before->message_passing();
  }
  if (absl::Status s = Write(profile, o.out); !s.ok()) return s;
  std::cout << KernelTableText(profile) << "\n" << LinkTableText(profile, *links, linked) << "\n" << o.out << "\n";
  return absl::OkStatus();
}

}  // namespace

void AddCalibrateCommand(CLI::App& app, int& exit_status) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("calibrate", "measures this machine's kernels and links into a profile");
  command->add_option("--device", options->device, "the device whose kernels are measured: cpu")->capture_default_str();
  command->add_option("--fabric", options->fabric, "the fabric whose links are measured: in_memory, with the kernels; mpi (start it under mpirun or "
                      "`twofold launch --ranks=2 --fabric=mpi -- calibrate`): added to the profile")->capture_default_str();
  command->add_option("--threads", options->threads, "threads a rank; as many ranks as fit the cores run at once")
      ->capture_default_str();
  command->add_option("--out", options->out, "the profile to write")->capture_default_str();
  command->add_flag("--quick", options->quick, "fewer sizes and rounds: some seconds, wider intervals");
  command->callback([options, &exit_status] {
    const absl::Status status = Calibrate(*options);
    if (status.ok()) return;
    if (LaunchedAs().rank == 0) spdlog::error("{}", std::string(status.message()));
    exit_status = status.code() == absl::StatusCode::kInvalidArgument ? 2 : 1;
  });
}

}  // namespace twofold
