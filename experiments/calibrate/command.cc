#include "experiments/calibrate/command.h"

#include <sys/utsname.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "backends/launch.h"
#include "backends/registry.h"
#include "experiments/calibrate/fit_messages.h"
#include "experiments/calibrate/fit_training.h"
#include "experiments/calibrate/jobs.h"
#include "experiments/calibrate/measure_kernels.h"
#include "experiments/calibrate/measure_links.h"
#include "experiments/calibrate/measure_messages.h"
#include "experiments/calibrate/profile_from.h"
#include "experiments/calibrate/samples.h"
#include "experiments/calibrate/table.h"
#include "experiments/spec/spec.h"
#include "google/protobuf/text_format.h"
#include "sim/cost/read_profile.h"
#include "spdlog/spdlog.h"
#include "topologies/catalogue.h"

namespace twofold {
namespace {

using namespace calibrate;

struct Options {
  std::string device = "cpu", fabric = "in_memory", out = kThisMachineProfile;
  std::string cluster, cluster_out;
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
  if (o.cluster.empty() != o.cluster_out.empty()) {
    return absl::InvalidArgumentError("--cluster and --cluster-out go together: the cluster's structure, and the file that gets its figures, too");
  }
  if (!o.cluster_out.empty() && o.fabric == "in_memory") {
    return absl::InvalidArgumentError(absl::StrCat("--cluster-out=", o.cluster_out, ": messages between hosts are measured; use --fabric=mpi under mpirun"));
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

absl::Status Write(const profile::Profile& profile, const std::string& path) {
  const std::filesystem::path target(path);
  std::error_code error;
  if (target.has_parent_path()) std::filesystem::create_directories(target.parent_path(), error);
  std::string text;
  google::protobuf::TextFormat::PrintToString(profile, &text);
  const std::string part = path + ".part";
  std::ofstream file(part);
  file << "# proto-message: twofold.profile.Profile\n" << text;
  file.close();
  if (!file) error = std::make_error_code(std::errc::io_error);
  else std::filesystem::rename(part, target, error);
  if (error) return absl::InvalidArgumentError(absl::StrCat("--out=", path, ": cannot be written (", error.message(), ")"));
  return absl::OkStatus();
}

// A machine's speed drifts, so all that is measured comes in parts, one of each after the other: kernels, links, jobs.
class Calibration {
 public:
  Calibration(const Options& o, int ranks, int cores)
      : options_(o), ranks_(ranks), linked_(std::max(2, ranks)), parts_(o.quick ? 2 : 4) {
    profile_.set_name("this-machine");
    profile_.set_created(Now());
    profile_.set_processor(ProcessorName());
    profile_.set_cores(cores);
    profile_.set_threads(o.threads);
  }

  absl::Status Run() {
    const absl::Cleanup remove = [&] {
      std::error_code none;
      std::filesystem::remove(scratch_, none);
    };
    if (!Write(profile_, scratch_).ok()) {  // better known before than after all that is measured
      return absl::InvalidArgumentError(absl::StrCat("--out=", options_.out, ": cannot be written; a file in a folder that can is right"));
    }
    if (absl::Status s = PlanKernels(); !s.ok()) return s;
    for (int part = 0; part < parts_; ++part) {
      std::cerr << absl::StrFormat("part %d of %d: kernels, links, training jobs\n", part + 1, parts_);
      if (absl::Status s = Measure(part); !s.ok()) return s;
    }
    AddKernels(keys_, costs_, kernels_, profile_);
    AddLinks(links_, linked_, profile_);
    profile_.set_source(absl::StrFormat("measured by `twofold calibrate%s`: %d ranks of %d thread%s at once, in %d parts", options_.quick ? " --quick" : "",
                                        ranks_, options_.threads, options_.threads == 1 ? "" : "s", parts_));
    if (const auto before = ReadProfile(options_.out); before.ok()) {  // what was measured of other fabrics stays
      *profile_.mutable_message_passing() = before->message_passing();
    }
    return Train();
  }
  profile::Profile& profile() { return profile_; }
  int linked() const { return linked_; }

 private:
  absl::Status PlanKernels() {
    plan_.cases = Cases(options_.quick);
    plan_.parts = parts_;
    std::cerr << absl::StrFormat("%d kernels and sizes on %d rank%s of %d thread%s at once: warming up\n", plan_.cases.size(), ranks_,
                                 ranks_ == 1 ? "" : "s", options_.threads, options_.threads == 1 ? "" : "s");
    const auto tried = RunOn(ranks_, options_.threads, [this](RankContext& ctx) { return TryKernels(ctx, plan_.cases); });
    if (!tried.ok()) return tried.status();
    for (const std::vector<double>& row : *tried) plan_.seconds.push_back(row[0]);
    plan_.rounds = RoundsWithin(plan_.seconds, Seconds(options_.quick ? 4 : 12), options_.quick ? 5 : 9);
    // The cases again, as shapes alone, for what they are called and cost.
    ShapesOnly shapes;
    for (const Case& c : plan_.cases) {
      const ops::Op op = c.make(shapes);
      keys_.push_back(ops::Key(op)), costs_.push_back(ops::CostOf(op));
    }
    return absl::OkStatus();
  }

  absl::Status Measure(int part) {
    plan_.part = part;
    const auto kernels = RunOn(ranks_, options_.threads, [this](RankContext& ctx) { return MeasureKernels(ctx, plan_); });
    if (!kernels.ok()) return kernels.status();
    Append(kernels_, *kernels);
    const int rounds = options_.quick ? 3 : 6;
    const auto links = RunOn(linked_, options_.threads, [rounds](RankContext& ctx) { return MeasureLinks(ctx, rounds); });
    if (!links.ok()) return links.status();
    Append(links_, *links);
    for (size_t job = 0; job < jobs_.size(); ++job) {
      for (const auto& [ranks, overlap] : Ways()) {
        const absl::StatusOr<JobTimes> times = RunJob(jobs_[job], SpecOf(jobs_[job], ranks, options_.threads, overlap));
        if (!times.ok()) return times.status();
        runs_[ranks].push_back({job, overlap, part, *times});
      }
    }
    return absl::OkStatus();
  }

  // Numbers of ranks at once, and whether communication overlaps.
  std::vector<std::pair<int, bool>> Ways() const {
    if (ranks_ == 1) return {{1, false}};
    return {{1, false}, {ranks_, false}, {ranks_, true}};
  }

  absl::Status Train() {
    for (const auto& [ranks, runs] : runs_) {
      const auto predict = [&, n = ranks](size_t job, bool overlap, const profile::Training* training) -> absl::StatusOr<JobTimes> {
        profile::Profile with = profile_;
        with.clear_training();
        if (training != nullptr) *with.add_training() = *training;
        if (absl::Status s = Write(with, scratch_); !s.ok()) return s;
        spec::Spec spec = SpecOf(jobs_[job], n, options_.threads, overlap);
        if (absl::Status s = ApplyFabric(spec, "simulated"); !s.ok()) return s;
        spec.mutable_fabric()->mutable_simulated()->set_profile(scratch_);
        FillDefaults(spec, jobs_[job].name);
        return RunJob(jobs_[job], spec);
      };
      absl::StatusOr<profile::Training> training = FitTraining(ranks, runs, predict);
      if (!training.ok()) return training.status();
      for (const Job& job : jobs_) training->add_jobs(job.name);
      trainings_.push_back(*std::move(training));
    }
    for (profile::Training& t : trainings_) *profile_.add_training() = std::move(t);
    return absl::OkStatus();
  }

  const Options& options_;
  const std::string scratch_ = options_.out + ".fit";  // the simulator reads profiles from files
  const int ranks_, linked_, parts_;
  const std::vector<Job> jobs_ = Jobs();
  profile::Profile profile_;
  KernelPlan plan_;
  std::vector<ops::KernelKey> keys_;
  std::vector<ops::Cost> costs_;
  Samples kernels_, links_;
  std::map<int, std::vector<JobRun>> runs_;  // by ranks at once
  std::vector<profile::Training> trainings_;
};

absl::Status WriteCluster(const cluster::Cluster& cluster, const std::string& path) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(cluster, &text);
  std::ofstream file(path);
  file << "# proto-message: twofold.cluster.Cluster\n" << text;
  file.close();
  if (file) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--cluster-out=", path, ": cannot be written; a file in a folder that can is right"));
}

// Runs `measure` on every process that was launched; rank 0's bytes, none for those who do not speak.
absl::StatusOr<std::string> OnProcesses(const Options& o, std::string (*measure)(RankContext&, int)) {
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
  const RunResult result = (*fabric)->Run(launch.size, [rounds, measure](RankContext& ctx) { return measure(ctx, rounds); });
  if (!result.status.ok()) return absl::InternalError(result.status.message());
  return (*fabric)->speaks() ? result.results[0] : std::string();
}

// The cluster whose hosts the processes are on, from messages between them: its structure is given, its figures are found.
absl::Status CalibrateCluster(const Options& o) {
  const absl::StatusOr<cluster::Cluster> shape = FindCluster(o.cluster, "--cluster");
  if (!shape.ok()) return shape.status();
  const absl::StatusOr<std::string> bytes = OnProcesses(o, MeasureBetweenHosts);
  if (!bytes.ok() || bytes->empty()) return bytes.status();
  profile::PointToPoint links;
  links.ParseFromString(*bytes);
  const absl::StatusOr<cluster::Cluster> cluster = ClusterFrom(*shape, links);
  if (!cluster.ok()) return cluster.status();
  if (absl::Status s = WriteCluster(*cluster, o.cluster_out); !s.ok()) return s;
  std::cout << PointToPointText(links) << "\n" << o.cluster_out << "\n";
  return absl::OkStatus();
}

// Messages between processes: added to the profile that is there, whose kernels and other links stay as they are.
absl::Status CalibrateMessages(const Options& o) {
  const absl::StatusOr<std::string> bytes = OnProcesses(o, MeasureMessages);
  if (!bytes.ok() || bytes->empty()) return bytes.status();
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
  links.ParseFromString(*bytes);
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
  if (!o.cluster_out.empty()) return CalibrateCluster(o);
  if (o.fabric != "in_memory") return CalibrateMessages(o);
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const int ranks = std::max(1, cores / o.threads);
  Calibration calibration(o, ranks, cores);
  if (absl::Status s = calibration.Run(); !s.ok()) return s;
  const profile::Profile& profile = calibration.profile();
  if (absl::Status s = Write(profile, o.out); !s.ok()) return s;
  std::cout << KernelTableText(profile) << "\n" << LinkTableText(profile.shared_memory(), calibration.linked()) << "\n";
  for (const profile::Training& t : profile.training()) std::cout << TrainingTableText(t);
  std::cout << "\n" << o.out << "\n";
  return absl::OkStatus();
}

}  // namespace

void AddCalibrateCommand(CLI::App& app, int& exit_status) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("calibrate", "measures this machine's kernels, links and small training jobs into a profile: "
                                                         "about half a minute on two cores");
  command->add_option("--device", options->device, "the device whose kernels are measured: cpu")->capture_default_str();
  command->add_option("--fabric", options->fabric, "the fabric whose links are measured: in_memory, with the kernels; mpi (start it under mpirun or "
                      "`twofold launch --ranks=2 --fabric=mpi -- calibrate`): added to the profile")->capture_default_str();
  command->add_option("--threads", options->threads, "threads a rank; as many ranks as fit the cores run at once")
      ->capture_default_str();
  command->add_option("--out", options->out, "the profile to write")->capture_default_str();
  command->add_option("--cluster", options->cluster, "with --fabric=mpi: the structure of the cluster that the processes are on (a catalogue name or a file: a "
                      "star, or machines of one device on a network)");
  command->add_option("--cluster-out", options->cluster_out, "writes that cluster with links and library open_mpi as messages between ranks show them, for "
                      "`--fabric=simulated --cluster=FILE`");
  command->add_flag("--quick", options->quick, "fewer sizes and rounds: less than half that time, wider intervals");
  command->callback([options, &exit_status] {
    const absl::Status status = Calibrate(*options);
    if (status.ok()) return;
    if (LaunchedAs().rank == 0) spdlog::error("{}", std::string(status.message()));
    exit_status = absl::IsInvalidArgument(status) || absl::IsNotFound(status) ? 2 : 1;
  });
}

}  // namespace twofold
