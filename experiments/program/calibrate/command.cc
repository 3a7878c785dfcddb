#include "experiments/program/calibrate/command.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "backends/host/cuda.h"
#include "backends/launch/launch.h"
#include "backends/registry.h"
#include "core/base/format.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "experiments/program/calibrate/fit_messages.h"
#include "experiments/program/calibrate/from_runs.h"
#include "experiments/program/calibrate/from_sweep.h"
#include "experiments/program/calibrate/from_table.h"
#include "experiments/program/calibrate/gpu_calibration.h"
#include "experiments/program/calibrate/machine.h"
#include "experiments/program/calibrate/measure_links.h"
#include "experiments/program/calibrate/measure_messages.h"
#include "experiments/program/calibrate/out_file.h"
#include "experiments/program/calibrate/profile_from.h"
#include "experiments/program/calibrate/samples.h"
#include "experiments/program/calibrate/table.h"
#include "experiments/program/cli/log.h"
#include "experiments/program/report/files.h"
#include "experiments/program/report/json.h"
#include "experiments/program/report/load.h"
#include "experiments/program/spec/spec.h"
#include "sim/cost/read_profile.h"
#include "topologies/catalogue.h"

namespace twofold {
namespace {

using namespace calibrate;

struct Options {
  std::string device = "cpu", fabric = "in_memory", out;
  std::string cluster, cluster_out;
  std::string spec, framework_out;  // with --from: measured runs
  std::string gpu_asked = "0";      // a number, or with --from a device
  FromTable from;
  int threads = 1, gpu = 0;
  bool quick = false, time_algorithms = false, json = false;
};

// Prints what was measured and written to `out`: as text, or as JSON.
void Print(const Options& o, const std::string& out, const std::string& text, const char* what,
           const google::protobuf::Message& measured) {
  if (o.json) {
    std::cout << JsonText({{"out", out}, {what, ToJson(measured)}});
  } else {
    std::cout << text << out << "\n";
  }
}

Backend::Calibration CalibrationOf(std::string_view fabric) {
  const Backend* const row = FindBackend(fabric);
  return row == nullptr ? Backend::Calibration::kNone : row->calibration;
}

absl::Status CheckFabric(std::string_view fabric) {
  const Backend* const row = FindBackend(fabric);
  std::vector<std::string> usable;
  for (const Backend& b : Backends()) {
    if (b.calibration == Backend::Calibration::kMachine)
      usable.push_back(StrCat(b.name, " (kernels and links of this machine)"));
    if (b.calibration == Backend::Calibration::kMessages)
      usable.push_back(StrCat(b.name, " (messages between processes)"));
  }
  if (CalibrationOf(fabric) == Backend::Calibration::kNone) {
    return InvalidArgument(
        "--fabric must be ", absl::StrJoin(usable, " or "), ", got \"", fabric, "\"",
        row == nullptr || !row->gpu_memory_only
            ? ""
            : StrCat("; --device=cuda calibrates collectives among this machine's GPUs, and `twofold bench --fabric=",
                     fabric, "` measures those of ", fabric));
  }
  if (const std::string reason = row->why_not(); !reason.empty())
    return InvalidArgument("--fabric=", fabric, ": ", reason);
  return CheckStartedFor(fabric);
}

absl::Status CheckOptions(const Options& o) {
  if (o.device != "cpu" && o.device != "cuda") {
    return InvalidArgument("--device must be cpu or cuda (got \"", o.device, "\")");
  }
  if (o.device == "cuda" && o.fabric != "in_memory") {
    return InvalidArgument("--fabric=", o.fabric,
                           ": --device=cuda measures the kernels of a GPU, and collectives among this machine's GPUs, "
                           "in one process; leave --fabric out");
  }
  if (o.device != "cuda" && (o.gpu != 0 || o.time_algorithms)) {
    return InvalidArgument(o.gpu != 0 ? absl::StrCat("--gpu=", o.gpu) : "--time-algorithms",
                           ": is only for --device=cuda (--device is ", o.device, "); use that, or leave it out");
  }
  if (o.device == "cuda" && (o.threads != 1 || !o.cluster.empty() || !o.cluster_out.empty())) {
    return InvalidArgument(
        "--device=cuda does not accept --threads, --cluster or --cluster-out, which are for CPUs and for messages "
        "between processes; leave them out");
  }
  if (o.gpu < 0) return InvalidArgument("--gpu must be at least 0 (got ", o.gpu, ")");
  if (o.device == "cuda" && host::WhyNoCuda().empty() && o.gpu >= host::GpusHere()) {
    return InvalidArgument("--gpu must be a GPU of this machine, from 0 to ", host::GpusHere() - 1, " (got ", o.gpu,
                           ")");
  }
  if (absl::Status s = CheckFabric(o.fabric); !s.ok()) return s;
  if (o.cluster.empty() != o.cluster_out.empty()) {
    return InvalidArgument(
        "--cluster and --cluster-out are only valid together: give the cluster's structure, and the file to write with "
        "its measured figures");
  }
  if (!o.cluster_out.empty() && o.fabric != "mpi") {  // the file says how Open MPI communicates
    return InvalidArgument("--cluster-out=", o.cluster_out,
                           ": needs messages between hosts; use --fabric=mpi under mpirun");
  }
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  if (o.threads < 1 || o.threads > cores) {
    return InvalidArgument("--threads must be from 1 to ", cores, ", the number of cores of this machine (got ",
                           o.threads, ")");
  }
  return absl::OkStatus();
}

// An output that cannot be written is refused before the measurements. A profile takes up to two thirds of a megabyte.
// While it is written a second one is beside it, and a third may be there from before.
constexpr int64_t kRoom = 4 << 20;

absl::Status CheckOutput(std::string_view flag, const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code none;
  if (!folder.empty()) std::filesystem::create_directories(folder, none);
  absl::Status status = CheckOutFile(flag, path);
  status.Update(CheckOutFile(flag, path + ".fit"));  // scratch file of a calibration
  if (status.ok()) status = CheckRoomFor(flag, path, kRoom);
  return status;
}

// A GPU, and collectives among several of them.
absl::Status CalibrateCuda(const Options& o) {
  spec::Spec spec;
  spec::Cuda& cuda = *spec.mutable_cuda();
  cuda.add_gpus(o.gpu), cuda.set_time_algorithms(o.time_algorithms);
  absl::StatusOr<profile::Profile> measured = CalibrateGpu(cuda, o.quick, TellProgress);
  if (!measured.ok()) return measured.status();
  profile::Profile profile = *std::move(measured);
  profile.set_created(CreatedNow());
  if (const int gpus = host::GpusHere(); gpus > 1) {
    std::cerr << "collectives of " << gpus << " GPUs\n";
    cuda.clear_gpus();
    spec.set_device(spec::CUDA);
    const auto measured = RunOn(
        gpus, 1, [rounds = o.quick ? 3 : 31](RankContext& ctx) { return Pack(MeasureCollectives(ctx, rounds)); }, spec);
    if (!measured.ok()) return measured.status();
    for (profile::MeasuredCollective& c : CollectivesFrom(measured->samples, 0, gpus))
      *profile.mutable_gpu()->add_collectives() = std::move(c);
    profile.mutable_gpu()->set_collectives_of(o.fabric);
  }
  if (absl::Status s = Write(profile, "--out", o.out); !s.ok()) return s;
  Print(o, o.out, absl::StrCat(KernelTableText(profile), "\n", GpuTableText(profile.gpu()), "\n"), "profile", profile);
  return absl::OkStatus();
}

// The existing profile, to which messages are added, or a new one.
absl::StatusOr<profile::Profile> ProfileSoFar(const std::string& path) {
  if (std::filesystem::exists(path)) return ReadProfile(path);
  profile::Profile profile = ProfileOfThisMachine();
  profile.set_source("measured by `twofold calibrate`");
  return profile;
}

// Runs `measure` on every launched process. Returns rank 0's bytes; empty on the processes that do not print.
absl::StatusOr<std::string> OnProcesses(const Options& o, std::string (*measure)(RankContext&, int)) {
  const Launch launch = LaunchedAs();
  if (launch.size < 2) {
    return InvalidArgument("--fabric=", o.fabric,
                           ": needs at least two processes; start it with `twofold launch --ranks=2 --fabric=",
                           o.fabric, " -- calibrate` or under mpirun");
  }
  spec::Spec spec;
  spec::Fabric* fabric_spec = spec.mutable_fabric();
  fabric_spec->GetReflection()->MutableMessage(fabric_spec, fabric_spec->GetDescriptor()->FindFieldByName(o.fabric));
  spec.mutable_parallel()->set_dp(launch.size);
  auto fabric = MakeFabric(spec);
  if (!fabric.ok()) return fabric.status();
  if (launch.rank == 0) std::cerr << "messages: " << launch.size << " ranks on " << o.fabric << "\n";
  const int rounds = o.quick ? 9 : 31;
  const RunResult result =
      (*fabric)->Run(launch.size, [rounds, measure](RankContext& ctx) { return measure(ctx, rounds); });
  if (!result.status.ok()) return Internal(result.status.message());
  return (*fabric)->speaks() ? result.results[0] : std::string();
}

// Measures the cluster of the processes' hosts by messages between them. Its structure is given; its figures are
// fitted.
absl::Status CalibrateCluster(const Options& o) {
  const absl::StatusOr<cluster::Cluster> shape = FindCluster(o.cluster, "--cluster");
  if (!shape.ok()) return shape.status();
  const absl::StatusOr<std::string> bytes = OnProcesses(o, MeasureBetweenHosts);
  if (!bytes.ok() || bytes->empty()) return bytes.status();
  profile::PointToPoint links;
  links.ParseFromString(*bytes);
  const absl::StatusOr<cluster::Cluster> cluster = ClusterFrom(*shape, links);
  if (!cluster.ok()) return cluster.status();
  if (absl::Status s = Write(*cluster, "--cluster-out", o.cluster_out); !s.ok()) return s;
  Print(o, o.cluster_out, absl::StrCat(PointToPointText(links), "\n"), "links", links);
  return absl::OkStatus();
}

// Measures messages between processes and adds them to the existing profile. Its kernels and other links are kept.
absl::Status CalibrateMessages(const Options& o) {
  absl::StatusOr<profile::Profile> profile = ProfileSoFar(o.out);
  if (!profile.ok()) return profile.status();
  const absl::StatusOr<std::string> bytes = OnProcesses(o, MeasureMessages);
  if (!bytes.ok() || bytes->empty()) return bytes.status();
  profile::MessagePassing links;
  links.ParseFromString(*bytes);
  links.set_fabric(o.fabric);
  auto* all = profile->mutable_message_passing();
  all->erase(std::remove_if(all->begin(), all->end(), [&](const auto& l) { return l.fabric() == o.fabric; }),
             all->end());
  *all->Add() = links;
  if (absl::Status s = Write(*profile, "--out", o.out); !s.ok()) return s;
  Print(o, o.out, absl::StrCat(MessageTableText(links), "\n"), "messages", links);
  if (profile->kernels_size() == 0 && !o.json)
    std::cout << "note: the profile has no kernels yet: `twofold calibrate --out=" << o.out << "` measures them\n";
  return absl::OkStatus();
}

absl::Status Calibrate(Options o) {
  const bool runs = !(o.spec.empty() && o.framework_out.empty());
  const bool sweep = !o.from.table.empty() && !(o.cluster.empty() && o.cluster_out.empty());
  if (runs && sweep) {
    return InvalidArgument("--cluster and --spec: a table is of collectives (--cluster, --cluster-out) or of runs ",
                           "(--spec, --framework-out); leave one of them out");
  }
  if (sweep) return CalibrateSweep({.table = o.from.table, .cluster = o.cluster, .out = o.cluster_out, .json = o.json});
  if (runs && o.from.table.empty())
    return InvalidArgument("--spec and --framework-out: are only for --from=TABLE of measured runs; leave them out");
  if (runs) return CalibrateRuns({.table = o.from.table, .spec = o.spec, .out = o.framework_out, .json = o.json});
  if (!o.from.table.empty()) {
    o.from.gpu = o.gpu_asked == "0" ? "" : o.gpu_asked, o.from.out = o.out, o.from.json = o.json;
    return CalibrateFrom(o.from);
  }
  if (!o.from.column.empty() || !o.from.dtype.empty())
    return InvalidArgument("--column and --dtype: are only for --from=TABLE; leave them out");
  if (!absl::SimpleAtoi(o.gpu_asked, &o.gpu))
    return InvalidArgument("--gpu must be the number of a GPU of this machine (got \"", o.gpu_asked,
                           "\"); names of devices are for --from=TABLE");
  if (absl::Status s = CheckOptions(o); !s.ok()) return s;
  if (o.out.empty()) o.out = o.device == "cuda" ? kThisMachineCudaProfile : kThisMachineProfile;
  if (absl::Status s =
          o.cluster_out.empty() ? CheckOutput("--out", o.out) : CheckOutput("--cluster-out", o.cluster_out);
      !s.ok())
    return s;
  if (o.device == "cuda") return CalibrateCuda(o);
  if (!o.cluster_out.empty()) return CalibrateCluster(o);
  if (CalibrationOf(o.fabric) == Backend::Calibration::kMessages) return CalibrateMessages(o);
  const absl::StatusOr<MachineProfile> measured =
      CalibrateMachine({.out = o.out, .threads = o.threads, .quick = o.quick});
  if (!measured.ok()) return measured.status();
  const profile::Profile& profile = measured->profile;
  if (absl::Status s = Write(profile, "--out", o.out); !s.ok()) return s;
  std::string text =
      absl::StrCat(KernelTableText(profile), "\n", LinkTableText(profile.shared_memory(), measured->linked), "\n");
  for (const profile::Training& t : profile.training()) absl::StrAppend(&text, TrainingTableText(t));
  absl::StrAppend(&text, "\n", LoadTableText(profile.load()));
  Print(o, o.out, text, "profile", profile);
  if (profile.load().taken() > kLoaded) {
    LogWarning(
        o.out, ": the machine was loaded during calibration, by up to ",
        absl::StrFormat("%.0f", 100 * profile.load().taken()),
        " %, so intervals of predictions are wider; for narrow ones, calibrate again while it does nothing else");
  }
  return absl::OkStatus();
}

constexpr char kCalibrateHelp[] =
    R"(The profile (core/proto/profile.proto as text) holds the cost of kernels by size, the cost of links between ranks, and how far
the measured times of small training jobs are from their predictions; this difference gives predictions their intervals.
Predictions for cluster this-machine (the default) read the profile of the current folder; for another one, use
--set=fabric.simulated.profile=FILE. Without a profile, predictions for this machine use assumed figures and say so.

Do not use the machine while it calibrates. If other work disturbs a measurement for more than 5 % of its
time, the measurement is repeated, at most twice, so calibration may take up to twice as long. The profile
states how loaded the machine was; more load makes the intervals of predictions wider.

For runs on MPI or Gloo, call `calibrate` first, then again with --fabric=mpi or gloo, which adds the cost of messages between
processes to the profile; `--set=fabric.simulated.links=mpi` then predicts runs on mpi. For a cluster of several hosts, start at least one
process on each, with --cluster and --cluster-out; predictions can use the file that this writes as their cluster.

--device=cuda measures a GPU: kernels, launches, copies and, if there are several GPUs, collectives. Predictions for
`device: CUDA` read that profile; for many such GPUs: --set=fabric.simulated.cluster=dgx-h100 --set=fabric.simulated.profile=FILE.

Exit status: 0 fine; 1 a failure while measuring; 2 wrong input, or a file that cannot be written.

Examples:
  twofold calibrate                                         then: twofold run SPEC --fabric=simulated
  twofold launch --ranks=2 --fabric=mpi -- calibrate        then: ... --set=fabric.simulated.links=mpi
  mpirun -n 4 --hostfile hosts twofold calibrate --fabric=mpi --cluster=shape.textproto --cluster-out=mine.textproto
  twofold bench all_reduce --fabric=simulated --cluster=mine.textproto
  twofold calibrate --device=cuda                           then: twofold run SPEC --set=device=CUDA --fabric=simulated
  twofold calibrate --from=products.csv.gz --gpu=h100-sxm --column=us_vllm --out=my-h100.textproto
                                                            then: device_profile: "my-h100.textproto" in a cluster's file
  twofold calibrate --from=nccl-tests.csv --cluster=dgx-h100 --cluster-out=mine.textproto
                                                            collective,ranks,nodes,bytes,us (docs/clusters.md)
  twofold calibrate --from=runs.csv --spec=base.textproto --framework-out=mine.textproto
                                                            parallel.tp,train.micro_batch,seconds (docs/frameworks.md))";

}  // namespace

void AddCalibrateCommand(const Command& program, int& exit_status) {
  auto options = std::make_shared<Options>();
  const Command command =
      program.AddCommand("calibrate",
                         "measures this machine's kernels, links and small training jobs (about a minute on two "
                         "cores), or with --device=cuda the kernels of a GPU (some minutes), and writes a profile");
  command.Group("What is measured")
      .AddOption("--device=DEVICE", options->device, "the device whose kernels are measured: cpu or cuda")
      .ShowDefault()
      .Offers({"cpu", "cuda"});
  command
      .AddOption("--fabric=FABRIC", options->fabric,
                 "the fabric whose links are measured: in_memory, together with the kernels; or mpi or gloo (with "
                 "`twofold launch --ranks=2 --fabric=mpi -- calibrate`), whose figures are added to the profile")
      .ShowDefault();
  command.AddOption("--threads=N", options->threads, "threads per rank; as many ranks as fit on the cores run at once")
      .ShowDefault();
  command.AddOption("--out=FILE", options->out,
                    absl::StrCat("the profile to write; default: ", kThisMachineProfile, ", with --device=cuda ",
                                 kThisMachineCudaProfile));
  command
      .AddOption("--gpu=GPU", options->gpu_asked,
                 "with --device=cuda: the number of the GPU to measure; with --from: the device whose laws are fitted "
                 "(a name of the catalogue, such as h100-sxm, or a device's .textproto)")
      .ShowDefault();
  command.Group("Laws of a table")
      .AddOption(
          "--from=FILE", options->from.table,
          "a table of measured times (.csv or .csv.gz): nothing is measured. Kernels: the constants of a law are "
          "fitted to it and written to --out as a device's .textproto. With --cluster, collectives: the constants "
          "of the cluster's links are, and are written to --cluster-out. With --spec, training steps: a framework's "
          "are, "
          "and are written to --framework-out");
  command.AddOption("--column=NAME", options->from.column,
                    "with --from: the column of times, such as us_vllm; of several, separated by commas, the geometric "
                    "mean; default: the first");
  command.AddOption("--dtype=TYPE", options->from.dtype, "with --from, for products: bf16 (default), fp8 or fp8_block")
      .Offers({"bf16", "fp8", "fp8_block"});
  command.Group("What is measured")
      .AddFlag("--time-algorithms", options->time_algorithms,
               "with --device=cuda: measure matrix products as a spec with cuda.time_algorithms runs them");
  command.Group("Links of a cluster")
      .AddOption("--cluster=CLUSTER", options->cluster,
                 "with --fabric=mpi: the structure of the cluster that the processes run on (a name of the "
                 "catalogue or a file: a star, or machines with one device each on a network); with --from: the "
                 "cluster with NCCL or RCCL on which the table's collectives were measured");
  command.AddOption("--cluster-out=FILE", options->cluster_out,
                    "with --cluster: the file to write. It describes the same cluster, with the measured figures of "
                    "its links and of library open_mpi, or with --from of NCCL; use it as `--fabric=simulated "
                    "--cluster=FILE`");
  command.Group("A framework's profile")
      .AddOption("--spec=SPEC", options->spec,
                 "with --from: what the table's runs have in common, with the nearest framework and a cluster of GPUs");
  command.AddOption("--framework-out=FILE", options->framework_out,
                    "with --spec: the profile to write; use it as framework_profile in a spec");
  command.Group("What is measured")
      .AddFlag("--quick", options->quick,
               "fewer sizes and rounds: less than half the time, but wider intervals; with --device=cuda: a few "
               "tiny sizes, only for tests");
  command.Group("Results").AddFlag(
      "--json", options->json,
      "print JSON: {out, profile}, the profile as it is written; {out, messages} of mpi and gloo; {out, links} with "
      "--cluster-out; {out, device} with --from, {out, cluster} with both, {out, "
      "framework} with --spec");
  command.Footer(kCalibrateHelp);
  command.OnParsed([options, &exit_status] {
    const absl::Status status = Calibrate(*options);
    if (status.ok()) return;
    if (SaysWhatAllFound()) LogError(status.message());
    exit_status = absl::IsInvalidArgument(status) || absl::IsNotFound(status) ? 2 : 1;
  });
}

}  // namespace twofold
