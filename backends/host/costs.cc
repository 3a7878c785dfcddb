#include "backends/host/costs.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_format.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "sim/cost/gpu_cost_model.h"
#include "sim/cost/laws/gpu_tiles.h"
#include "sim/cost/laws/product_law.h"
#include "sim/cost/profile_cost_model.h"
#include "sim/cost/read_profile.h"
#include "sim/cost/roofline.h"
#include "topologies/catalogue.h"

namespace twofold::host {
namespace {

class AtSpeed : public CostModel {
 public:
  AtSpeed(std::unique_ptr<CostModel> model, double speed) : model_(std::move(model)), speed_(speed) {}
  Estimate Time(const ops::Op& op) override {
    Estimate e = model_->Time(op);
    for (Seconds* s : {&e.seconds, &e.low, &e.high}) *s = *s / speed_;
    return e;
  }
  bool independent() const override { return model_->independent(); }
  Range common() const override { return model_->common(); }

 private:
  const std::unique_ptr<CostModel> model_;
  const double speed_;
};

}  // namespace

std::unique_ptr<CostModel> Costs::Make() const {
  std::unique_ptr<CostModel> model;
  if (profile.kernels_size() > 0)
    model = std::make_unique<ProfileCostModel>(profile, training ? &*training : nullptr, tf32);
  else if (device.has_kernels() || device.has_laws())
    model = std::make_unique<GpuCostModel>(device, fp8);
  else
    model = std::make_unique<RooflineCostModel>(device);
  if (speed == 1) return model;
  return std::make_unique<AtSpeed>(std::move(model), speed);
}

namespace {

// PCIe 4.0 x16, as on an A100: for GPUs whose data sheet here says nothing.
constexpr double kAssumedGBytesPerSecond = 25, kAssumedMicroseconds = 10;

bool IsAssumed(const cluster::Device& d) {
  return d.kind() == cluster::Device::GPU_DEVICE && d.host_link_gbytes_per_second() <= 0;
}

}  // namespace

HostLink Costs::host_link() const {
  if (IsAssumed(device))
    return {BytesPerSecond(kAssumedGBytesPerSecond * 1e9 * speed), Seconds(kAssumedMicroseconds * 1e-6 / speed)};
  return {BytesPerSecond(device.host_link_gbytes_per_second() * 1e9 * speed),
          Seconds(device.host_link_us() * 1e-6 / speed)};
}

Seconds HostLink::Time(const Tensor& from, const Tensor& to, CostModel& costs) const {
  if (rate.value() <= 0) return costs.Time(ops::Cast{.in = from, .out = to}).seconds + latency;
  return Seconds(static_cast<double>(from.bytes().value()) / rate.value()) + latency;
}

std::string Costs::DescribeHostLink() const {
  if (profile.has_gpu() && profile.gpu().has_to_device()) {
    return StrCat("transfers between device and host: ", device.host_link_gbytes_per_second(),
                  " GB/s in each direction and ", device.host_link_us(),
                  " µs per transfer, as calibration measured them in the slower direction");
  }
  if (IsAssumed(device)) {
    return StrCat("transfers between device and host: ", kAssumedGBytesPerSecond, " GB/s in each direction and ",
                  kAssumedMicroseconds,
                  " µs per transfer are assumed, because the cluster does not set device.host_link_gbytes_per_second");
  }
  if (device.host_link_gbytes_per_second() > 0) {
    return StrCat("transfers between device and host: ", device.host_link_gbytes_per_second(),
                  " GB/s in each direction and ", device.host_link_us(),
                  " µs per transfer, from the cluster's file, not measured");
  }
  return "transfers between device and host take as long as a copy of the same size on the device; how they slow down "
         "compute, by using the cores and the memory bandwidth, is not modelled";
}

namespace {

std::string UsualProfile(const cluster::Cluster& c, bool cuda) {
  if (c.device().has_profile()) return c.device().profile();
  const char* usual = cuda ? kThisMachineCudaProfile : kThisMachineProfile;
  return c.name() == kThisMachine && std::filesystem::exists(usual) ? usual : "";
}

absl::StatusOr<profile::Profile> ReadAnyProfile(const cluster::Cluster& c, const std::string& path) {
  if (c.device().has_profile() && path == c.device().profile()) {
    if (const auto text = FindCatalogueProfile(path))
      return ParseProfile(std::string(*text), StrCat("the catalogue's ", path));
  }
  return ReadProfile(path);
}

// The device with its data-sheet figures replaced by measured ones.
cluster::Device Measured(cluster::Device device, const profile::Profile& profile) {
  const profile::Gpu& gpu = profile.gpu();
  device.set_kind(cluster::Device::GPU_DEVICE);
  device.set_name(profile.processor());
  device.set_memory_bytes(gpu.memory_bytes());
  // Every copied byte is both read and written.
  device.set_memory_bytes_per_second(2 * gpu.within().bytes_per_second());
  device.set_memory_efficiency(1);
  if (!(device.f32_flops_per_second() > 0)) device.set_f32_flops_per_second(profile.peak_flops_per_second());
  device.set_launch_us((gpu.launch().seconds() + gpu.allocation().seconds()) * 1e6);
  if (gpu.has_kernel()) device.set_kernel_us(gpu.kernel().seconds() * 1e6);
  if (gpu.has_to_device() && gpu.has_to_host()) {
    device.set_host_link_gbytes_per_second(
        std::min(gpu.to_device().bytes_per_second(), gpu.to_host().bytes_per_second()) * 1e-9);
    device.set_host_link_us(std::max(gpu.to_device().latency().seconds(), gpu.to_host().latency().seconds()) * 1e6);
  }
  if (gpu.has_compute_capability()) device.set_compute_capability(gpu.compute_capability());
  device.clear_kernels();
  device.clear_laws();
  return device;
}

std::string DescribeGpu(const profile::Gpu& gpu) {
  return absl::StrFormat(
      "on the host, a launch takes %.1f µs (or as long as was measured for the kernel), an allocation %.1f µs, and "
      "reading one element back %.1f µs; the GPU copies %.0f GB/s within its memory, and %.1f GB/s to and from the "
      "host; %s",
      gpu.launch().seconds() * 1e6, gpu.allocation().seconds() * 1e6, gpu.read_back().seconds() * 1e6,
      gpu.within().bytes_per_second() * 1e-9, gpu.to_device().bytes_per_second() * 1e-9, gpu.software());
}

absl::Status CheckKind(const cluster::Cluster& c, const CostsAsked& asked, const Costs& costs,
                       const std::string& path) {
  const bool measured_gpu = costs.profile.has_gpu(),
             gpu = c.device().kind() == cluster::Device::GPU_DEVICE || (asked.cuda && c.name() == kThisMachine);
  if (measured_gpu == gpu || (asked.emulated && c.name() == kThisMachine)) return absl::OkStatus();
  return InvalidArgument(path, ": this is a profile of a ", measured_gpu ? "GPU" : "CPU", " (",
                         costs.profile.processor(), "), but cluster ", c.name(), " computes on ", gpu ? "GPUs" : "CPUs",
                         "; use a profile that `twofold calibrate", gpu ? " --device=cuda" : "", "` wrote",
                         c.name() == kThisMachine && !gpu ? ", or device: CUDA" : "");
}

}  // namespace

absl::StatusOr<Costs> FindCosts(const cluster::Cluster& c, const CostsAsked& asked) {
  Costs costs{.device = c.device(), .profile = {}, .training = {}, .tf32 = asked.tf32, .notes = {}};
  const std::string path = asked.profile.empty() ? UsualProfile(c, asked.cuda) : asked.profile;
  if (absl::Status s = CheckKernels(c.device()); !s.ok()) {
    return InvalidArgument("cluster ", c.name(), ": device.kernels.", s.message());
  }
  if (c.device().has_laws()) {
    if (absl::Status s = CheckLaws(c.device().laws()); !s.ok())
      return InvalidArgument("cluster ", c.name(), ": device.laws.", s.message());
  }
  if (path.empty() && asked.cuda && c.name() == kThisMachine) {
    return InvalidArgument("fabric.simulated.cluster: \"", c.name(),
                           "\" computes on CPUs, but device is CUDA; its GPU is known only from ",
                           kThisMachineCudaProfile,
                           ", which `twofold calibrate --device=cuda` writes; write that file, or use a cluster of "
                           "GPUs (`twofold list clusters`) or device: CPU");
  }
  if (path.empty() && (c.device().has_kernels() || c.device().has_laws())) {
    costs.notes.push_back(StrCat(GpuCostModel(c.device()).Describe(), ": ", c.name(), ", ", c.source()));
    return costs;
  }
  if (path.empty()) {
    costs.notes.push_back(
        StrCat("kernel times come from a data sheet or are assumed, not calibrated: ", c.name(), ", ", c.source()));
    return costs;
  }
  absl::StatusOr<profile::Profile> read = ReadAnyProfile(c, path);
  if (!read.ok()) return read.status();
  costs.profile = *std::move(read);
  if (costs.profile.kernels_size() == 0) {
    costs.notes.push_back(StrCat(
        path, " has no kernels, so kernel times come from a data sheet or are assumed: ", c.name(), ", ", c.source()));
    return costs;
  }
  if (absl::Status s = CheckKind(c, asked, costs, path); !s.ok()) return s;
  costs.notes.push_back(StrCat("calibration: ", path, ": ", ProfileCostModel(costs.profile).Describe()));
  if (costs.profile.has_gpu()) {
    costs.device = Measured(c.device(), costs.profile);
    costs.notes.push_back(StrCat("calibration: ", DescribeGpu(costs.profile.gpu())));
  }
  return costs;
}

namespace {

// The names of the catalogue's devices for which holds(device).
template <class Holds>
std::string DevicesThat(Holds&& holds) {
  std::string names;
  for (const std::string& name : ListDevices()) {
    const absl::StatusOr<cluster::Device> device = FindDevice(name);
    if (device.ok() && holds(*device)) StrAppend(&names, names.empty() ? "" : ", ", name);
  }
  return names;
}

std::string CapabilityText(double capability) { return absl::StrFormat("%.1f", capability); }

// Whether a profile measured products in FP8 and the rounding of their operands.
bool MeasuresFp8(const profile::Profile& profile, bool blocks) {
  const auto has = [&](std::string_view name) {
    return std::any_of(profile.kernels().begin(), profile.kernels().end(),
                       [name](const profile::Kernel& kernel) { return kernel.name() == name; });
  };
  return blocks ? has("matmul_fp8_block_nt") && has("quantise_fp8_blocks")
                : has("matmul_fp8_nt") && has("quantise_fp8");
}

std::string WhyFp8IsNotKnown(const Costs& costs) {
  if (costs.profile.kernels_size() > 0)
    return "which has only what a profile measured, and that has no FP8 (`twofold calibrate --device=cuda` measures "
           "it)";
  constexpr double kFirst = 8.9;
  if (!costs.device.has_compute_capability() || costs.device.compute_capability() >= kFirst) return "which has none";
  return StrCat("of compute capability ", CapabilityText(costs.device.compute_capability()), ", and FP8 begins with ",
                CapabilityText(kFirst));
}

}  // namespace

absl::Status CheckFp8(const spec::Precision& precision, const Costs& costs, std::string_view field) {
  if (precision.matmul() != spec::Precision::FP8 || costs.device.kind() != cluster::Device::GPU_DEVICE)
    return absl::OkStatus();
  const bool blocks = precision.fp8().scaling() == spec::Fp8::BLOCK;
  const std::string_view dtype = blocks ? "fp8_block" : "fp8";
  const auto has_law = [dtype](const cluster::Device& d) { return ProductLawOf(d.laws(), dtype) != nullptr; };
  if (costs.profile.kernels_size() == 0 && has_law(costs.device)) return absl::OkStatus();
  if (MeasuresFp8(costs.profile, blocks)) return absl::OkStatus();
  return InvalidArgument("train.precision.matmul: FP8 with scaling ",
                         spec::Fp8::Scaling_Name(precision.fp8().scaling()),
                         " needs a GPU with FP8 whose rate is known (products of dtype \"", dtype,
                         "\" in device.laws), but ", field, " has ", costs.device.name(), ", ", WhyFp8IsNotKnown(costs),
                         "; use a cluster of ", DevicesThat(has_law), ", or matmul: AS_PARAMETER");
}

absl::Status CheckHopperAttention(const spec::Spec& spec, const Costs& costs) {
  constexpr double kHopper = 9.0;
  const cluster::Device& device = costs.device;
  if (spec.device() != spec::CUDA || spec.cuda().attention() != spec::Cuda::HOPPER ||
      device.compute_capability() == kHopper) {
    return absl::OkStatus();
  }
  return InvalidArgument("cuda.attention: HOPPER needs GPUs of compute capability ", CapabilityText(kHopper),
                         ", but fabric.simulated.cluster has ", device.name(),
                         device.has_compute_capability() ? StrCat(" of ", CapabilityText(device.compute_capability()))
                                                         : ", of which none is known (device.compute_capability)",
                         "; use AUTO or OWN, or a cluster of ",
                         DevicesThat([](const cluster::Device& d) { return d.compute_capability() == kHopper; }));
}

absl::StatusOr<Costs> FindCosts(const spec::Emulated& emulated) {
  absl::StatusOr<cluster::Cluster> c = FindCluster(emulated.cluster(), "emulated.cluster");
  if (!c.ok()) return c.status();
  absl::StatusOr<Costs> costs = FindCosts(*c, {.profile = emulated.profile(), .emulated = true});
  if (!costs.ok()) return costs;
  costs->speed = emulated.speed();
  costs->notes.push_back(StrCat("device EMULATED: operations take the time modelled for ", c->device().name(),
                                emulated.speed() == 1 ? "" : StrCat(", at ", emulated.speed(), " of its speed"),
                                "; every rank has its own device; host work and kernel launches take no time"));
  return costs;
}

}  // namespace twofold::host
