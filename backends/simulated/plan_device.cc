#include "backends/simulated/plan_device.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "backends/host/costs.h"
#include "backends/host/memory_rules.h"
#include "backends/simulated/graph_launches.h"
#include "backends/simulated/plan_links.h"
#include "core/base/format.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/comm/staging.h"
#include "sim/collectives/copy_engines.h"
#include "sim/collectives/schedule.h"
#include "sim/cost/framework_cost_model.h"
#include "sim/cost/laws/law_times.h"
#include "sim/cost/laws/product_law.h"
#include "sim/cost/load.h"
#include "sim/cost/profile_cost_model.h"
#include "sim/spread.h"
#include "topologies/check_fields.h"
#include "topologies/frameworks.h"

namespace twofold {
namespace {

// Training jobs were measured with ranks that share the machine's cores; ranks that only sleep (EMULATED) share
// nothing.
void SetTraining(const cluster::Cluster& c, const profile::Profile& profile, host::Costs& costs, SimulationPlan& plan) {
  if (!c.has_shared_memory_host() || plan.machine.gpu) return;
  const profile::Training* training = TrainingFor(profile, plan.world_size);
  if (training == nullptr) return;
  costs.training = *training;
  plan.machine.host_seconds = training->host_s();
  plan.machine.waiting = plan.world_size > 1 ? training->waiting() : 0;
  plan.machine.core_share = training->core_share();
  plan.notes.push_back(
      StrCat("in training, kernels take ", std::round(100 * training->factor()) / 100,
             " times as long as alone; calibration measured this in ", training->jobs_size(), " small jobs on ",
             Counted(training->ranks(), "rank"),
             training->ranks() == plan.world_size ? "" : ", since it ran none on as many ranks as this job has"));
}

// Applies a GPU profile's measurements other than kernels.
void SetGpu(const spec::Spec& spec, const cluster::Cluster& c, const profile::Gpu& gpu, SimulationPlan& plan) {
  plan.machine.read_back_seconds = gpu.read_back().seconds();
  plan.machine.uploads = gpu.has_to_device();
  if (spec.device() == spec::CUDA && spec.cuda().time_algorithms() != gpu.time_algorithms()) {
    plan.notes.push_back(StrCat("cuda.time_algorithms is ", spec.cuda().time_algorithms() ? "true" : "false",
                                ", but products were measured with ", gpu.time_algorithms() ? "true" : "false"));
  }
  if (spec.device() == spec::CUDA && spec.cuda().attention() != spec::Cuda::AUTO) {
    plan.notes.push_back(StrCat("cuda.attention is ", spec::Cuda::Attention_Name(spec.cuda().attention()),
                                ", but attention was measured with AUTO"));
  }
  if (spec.device() == spec::CUDA && spec.cuda().attention_workspace_mib() > 0) {
    plan.notes.push_back(StrCat("cuda.attention_workspace_mib is ", spec.cuda().attention_workspace_mib(),
                                ", but attention was measured without it"));
  }
  if (plan.world_size == 1 || gpu.collectives().empty()) return;
  if (c.has_library()) {
    plan.notes.push_back(StrCat("the profile's collectives, measured on fabric ", gpu.collectives_of(),
                                ", are ignored: the cluster says how its library communicates"));
    return;
  }
  plan.notes.push_back(StrCat("the profile's collectives were measured on fabric ", gpu.collectives_of()));
  SetCollectives(gpu.collectives(), plan);
}

// Operations that repeat are launched by CUDA graphs.
void SetGraphs(const spec::Spec& spec, SimulationPlan& plan) {
  if (!plan.machine.gpu || spec.device() != spec::CUDA || !spec.cuda().graphs()) return;
  plan.machine.graphs = {kGraphOperation, kGraphLaunch, kGraphNode};
  plan.notes.push_back(absl::StrFormat(
      "cuda.graphs: where operations between two communications repeat, the host is assumed to take %.2g µs for a CUDA "
      "graph of them and %.2g ns for each node (NVIDIA, CUDA 12.6, on a Xeon Silver 4208), and %.2g µs to compare an "
      "operation with that of the step before (0.45 to 1.4 were measured on a server's CPU), instead of its launch, "
      "which "
      "takes %.2g µs; that kernels of a graph follow each other faster is not modelled",
      kGraphLaunch * 1e6, kGraphNode * 1e9, kGraphOperation * 1e6, plan.machine.launch_seconds * 1e6));
}

// Whether communication takes a part of the device from what computes beside it.
void SetContention(const spec::Simulated& simulated, const cluster::Device& device, SimulationPlan& plan) {
  if (!plan.machine.gpu || plan.world_size == 1 || !(device.has_laws() || device.has_kernels())) return;
  plan.machine.beside = simulated.contention() == spec::Simulated::Contention::ON;
  if (plan.machine.beside) {
    plan.notes.push_back(
        "what computes beside communication takes longer, by the multiprocessors that the library's channels occupy "
        "and "
        "the memory bandwidth that they use (`contention: OFF`: it does not); that computing slows communication down "
        "is not modelled");
  }
}

// Says that the rate of products in training is assumed, if it is.
void NoteTrainingRate(const cluster::Device& device, SimulationPlan& plan) {
  const cluster::KernelLaws& laws = device.laws();
  const double error = device.has_laws() ? TrainingError(laws) : 0;
  if (error == 0) return;
  plan.notes.push_back(absl::StrFormat(
      "the rate that products sustain in training is assumed, and widens the interval by up to %.0f %% of their time "
      "(%s)",
      100 * error,
      laws.has_training_source() ? laws.training_source()
      : laws.training_tflops() > 0
          ? absl::StrFormat("%g TFLOP/s", laws.training_tflops())
          : "as of products alone; laws { training_tflops: ... } says what a training reached"));
}

Fp8Layouts Fp8LayoutsOf(const spec::Spec& spec) {
  if (spec.framework() != spec::TWOFOLD) return Fp8Layouts::kRounded;
  return spec.cuda().fp8() == spec::Cuda::Fp8::OWN ? Fp8Layouts::kAsTheyLie : Fp8Layouts::kCopied;
}

// What that means on the device, as the end of a sentence.
std::string LayoutsText(Fp8Layouts layouts, const cluster::Device& device) {
  if (!NeedsFp8AlongSum(device) || layouts == Fp8Layouts::kAsTheyLie) return "";
  return layouts == Fp8Layouts::kCopied
             ? "; operands that lie across the sum, as in backward products, are copied first, in the time of their "
               "bytes"
             : "; rounding writes codes in two layouts, 1 byte an element more";
}

// Whose kernels of products in FP8 are predicted.
void NoteFp8(const spec::Spec& spec, const host::Costs& costs, SimulationPlan& plan) {
  if (spec.train().precision().matmul() != spec::Precision::FP8 || costs.device.kind() != cluster::Device::GPU_DEVICE) {
    return;
  }
  if (costs.profile.kernels_size() > 0) {
    if (spec.device() == spec::CUDA && spec.cuda().fp8() != spec::Cuda::Fp8::AUTO) {
      plan.notes.push_back(StrCat("cuda.fp8 is ", spec::Cuda::Fp8::Kernels_Name(spec.cuda().fp8()),
                                  ", but products in FP8 were measured with AUTO"));
    }
    return;
  }
  const ops::Fp8Scaling scaling{.blocks = spec.train().precision().fp8().scaling() == spec::Fp8::BLOCK
                                              ? ops::Fp8Blocks::kRow
                                              : ops::Fp8Blocks::kTensor};
  const cluster::ProductLaw* law = ProductLawOf(costs.device.laws(), Fp8LawOf(scaling));
  const char* const own = spec.cuda().fp8() == spec::Cuda::Fp8::OWN
                              ? "with cuda.fp8: OWN device CUDA runs its own kernels"
                              : "device CUDA runs cuBLASLt's where it has them, and its own kernels elsewhere";
  plan.notes.push_back(StrCat("products in FP8 take the time of the device's FP8 law",
                              law != nullptr ? ", fitted to the column " : "", law != nullptr ? law->column() : "",
                              ", and rounding their operands that of its bytes; ", own, ", which have not been timed",
                              LayoutsText(Fp8LayoutsOf(spec), costs.device),
                              "; MFU counts the peak of train.precision.parameter"));
}

// How far devices of this type differ in speed.
absl::Status SetSpeeds(const spec::Simulated& simulated, const cluster::Device& device, SimulationPlan& plan) {
  const double spread = device.speed_spread();
  if (!(spread >= 0 && spread < 0.5)) {
    return InvalidArgument("device.speed_spread: ", spread,
                           ": must be at least 0 and below 0.5, as a share of the time that arithmetic takes");
  }
  if (!plan.machine.gpu || plan.world_size == 1 || spread == 0 || simulated.noise() == spec::Simulated::Noise::OFF)
    return absl::OkStatus();
  plan.machine.speed_spread = spread;
  const double slowest = sim::MaximumOf(plan.world_size).mean * spread;
  plan.notes.push_back(
      absl::StrFormat("devices differ in speed by %.2g %% (standard deviation), and ranks wait for the slowest: of %d, "
                      "it is expected to be %.2g %% slower than the average one (`noise: OFF`: all are alike)",
                      100 * spread, plan.world_size, 100 * slowest));
  return absl::OkStatus();
}

// Another framework's operations on this device. Its memory is judged when the run is over
// (experiments/program/framework_memory.h), so ranks may hold any number of bytes.
absl::Status SetFramework(const spec::Spec& spec, const cluster::Device& device, SimulationPlan& plan) {
  if (spec.framework() == spec::TWOFOLD) return absl::OkStatus();
  const absl::StatusOr<framework::Framework> found = FindFramework(spec);
  if (!found.ok()) return found.status();
  if (const absl::Status known = CheckFrameworkKernels(found->time()); !known.ok())
    return Within(StrCat("framework ", found->name(), ": "), known);
  if (device.kind() != cluster::Device::GPU_DEVICE) {
    return InvalidArgument("framework: ", spec::Framework_Name(spec.framework()),
                           " is predicted on GPUs, but fabric.simulated.cluster computes on CPUs; use a cluster of ",
                           "GPUs (`twofold list clusters`)");
  }
  plan.costs = std::make_unique<FrameworkCostModel>(std::move(plan.costs), found->time(), device);
  if (found->time().has_communication_launch_us())
    plan.machine.communication_launch_seconds = found->time().communication_launch_us() * 1e-6;
  plan.tp_overlap = found->time().tp_overlap();
  plan.machine.ring_copies = RingCopiesOf(spec.parallel(), plan.tp_overlap, plan.machine.communication_launch_seconds);
  if (plan.machine.ring_copies) {
    plan.notes.push_back(
        absl::StrFormat("tp_overlap: parts within a node are copied by the GPUs' copy engines, at %.3g %% of the link, "
                        "as was measured on "
                        "H100; that a copy begins after %.2g µs is assumed",
                        100 * sim::kCopyShare, sim::kCopySeconds * 1e6));
  }
  for (const framework::Moved& moved : found->time().moved()) {
    SimulatedMachine::Moved& to = plan.machine.moved.emplace_back();
    to.before =
        moved.before() == framework::Moved::ALL_GATHER ? Communication::kAllGather : Communication::kReduceScatter;
    for (const int type : moved.type()) to.types.push_back(absl::AsciiStrToLower(spec::DType_Name(type)));
    to.seconds = moved.bytes_per_element() / (device.memory_bytes_per_second() * device.memory_efficiency());
  }
  plan.device_memory = Bytes(0);
  plan.notes.push_back(StrCat("predicted for ", found->name(), ": ", found->summary(),
                              ". Where its figures come from: ", found->source(),
                              ". Pages and comparisons show this program's memory; the report's "
                              "`framework` of each rank has that of ",
                              found->name()));
  return absl::OkStatus();
}

// Whether the device that is predicted is of the kind that the spec wants.
absl::Status CheckCosts(const spec::Spec& spec, const cluster::Cluster& c, const host::Costs& costs) {
  const char* const field = spec.device() == spec::EMULATED ? "emulated.cluster" : "fabric.simulated.cluster";
  if (absl::Status s = host::CheckFp8(spec.train().precision(), costs, field); !s.ok()) return s;
  if (spec.device() == spec::CUDA && costs.device.kind() != cluster::Device::GPU_DEVICE) {
    return InvalidArgument("fabric.simulated.cluster: \"", c.name(),
                           "\" computes on CPUs, but device is CUDA; use a cluster of GPUs (",
                           "`twofold list clusters`), or device: CPU");
  }
  return host::CheckHopperAttention(spec, costs);
}

absl::Status SetMemory(const spec::Spec& spec, const host::MemoryRules& memory, SimulationPlan& plan) {
  plan.device_memory = memory.device;
  plan.host_memory = memory.host;
  const absl::StatusOr<host::MemoryRules> found = host::FindMemoryRules(spec, host::RanksAre::kThreads);
  if (!found.ok()) return found.status();
  plan.shared_memory = spec.memory().assume_fits() ? Bytes(0) : found->shared;
  plan.assume_fits = spec.memory().assume_fits();
  return absl::OkStatus();
}

// Communication through the host's memory, if the spec wants that.
absl::Status SetStaging(const spec::Spec& spec, const cluster::Cluster& c, DeviceKind kind, SimulationPlan& plan) {
  if (spec.fabric().simulated().links() != kStagedLinks) return absl::OkStatus();
  if (kind != DeviceKind::kCuda) {
    return InvalidArgument("fabric.simulated.links: \"", kStagedLinks, "\" is for GPUs, but cluster ", c.name(),
                           " computes on CPUs; leave this field out");
  }
  plan.machine.staging = HostStaging::kBytes;
  plan.notes.push_back(StrCat("communication is staged: each group holds ", HostStaging::kBytes.value() >> 20,
                              " MiB of host memory, as on fabric.mpi with a library that is not CUDA-aware; the time "
                              "of the copies is not modelled"));
  return absl::OkStatus();
}

}  // namespace

absl::Status SetCosts(const spec::Spec& spec, const cluster::Cluster& c, SimulationPlan& plan,
                      profile::Profile& profile) {
  absl::StatusOr<host::Costs> costs = host::FindCosts(c, {.profile = spec.fabric().simulated().profile(),
                                                          .cuda = spec.device() == spec::CUDA,
                                                          .tf32 = spec.device() == spec::CUDA && spec.cuda().tf32()});
  if (!costs.ok()) return costs.status();
  profile = costs->profile;
  const bool emulated = spec.device() == spec::EMULATED;
  if (emulated) costs = host::FindCosts(spec.emulated());
  if (!costs.ok()) return costs.status();
  if (absl::Status s = CheckCosts(spec, c, *costs); !s.ok()) return s;
  const host::MemoryRules memory = host::MemoryRulesOf(spec, costs->device);
  if (absl::Status s = SetMemory(spec, memory, plan); !s.ok()) return s;
  if (absl::Status s = SetStaging(spec, c, memory.kind, plan); !s.ok()) return s;
  plan.machine.gpu = memory.kind == DeviceKind::kCuda;  // false for an emulated device: its stream is the host
  plan.machine.launch_seconds = costs->device.launch_us() * 1e-6;
  plan.machine.communication_launch_seconds = costs->device.communication_launch_us() * 1e-6;
  SetGraphs(spec, plan);
  if (plan.machine.gpu && spec.device() == spec::CUDA && spec.cuda().attention() == spec::Cuda::HOPPER) {
    plan.notes.push_back(
        "cuda.attention: HOPPER is predicted to take the time of AUTO, since that kernel has not been timed");
  }
  if (absl::Status s = SetSpeeds(spec.fabric().simulated(), costs->device, plan); !s.ok()) return s;
  if (plan.machine.gpu && costs->profile.has_gpu()) SetGpu(spec, c, costs->profile.gpu(), plan);
  if (!emulated) {
    SetTraining(c, profile, *costs, plan);
    if (profile.threads() > 0 && profile.threads() != plan.threads) {
      plan.notes.push_back(StrCat("the profile's kernels ran on ", profile.threads(),
                                  " threads per rank, but this job's run on ", plan.threads,
                                  "; `twofold calibrate --threads=", plan.threads, "` measures those"));
    }
  }
  plan.notes.insert(plan.notes.end(), costs->notes.begin(), costs->notes.end());
  NoteFp8(spec, *costs, plan);
  if (spec.parallel().offload() != spec::Parallel::NO_OFFLOAD) plan.notes.push_back(costs->DescribeHostLink());
  plan.host_link = costs->host_link();
  costs->fp8 = Fp8LayoutsOf(spec);
  plan.costs = costs->Make();
  SetContention(spec.fabric().simulated(), costs->device, plan);
  NoteTrainingRate(costs->device, plan);
  return SetFramework(spec, costs->device, plan);
}

}  // namespace twofold
