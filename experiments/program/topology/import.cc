// twofold topology import: a cluster's file from the description of a node or platform. What that does not say,
// devices, library and network, comes from the catalogue's cluster with such GPUs, from options, or is assumed.
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/numbers.h"
#include "core/base/format.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/proto/fields.h"
#include "experiments/program/cli/log.h"
#include "experiments/program/topology/options.h"
#include "experiments/program/topology/output.h"
#include "google/protobuf/text_format.h"
#include "topologies/catalogue.h"
#include "topologies/import/gpu_names.h"
#include "topologies/import/nccl_xml.h"
#include "topologies/import/node_file.h"
#include "topologies/import/smi_matrix.h"

namespace twofold::topology {
namespace {

// The GPUs in an imported node's file.
struct Gpus {
  bool nvidia = false;
  int sm = 0;       // 0: not in the file
  std::string fit;  // the catalogue's cluster with such GPUs; empty: none
};

Gpus GpusOf(NodeFormat format, const ImportedNode& imported, const std::string& file, std::string_view content) {
  if (format == NodeFormat::kSmi) {
    const NamedGpu* gpu = FindGpu(imported.gpu);
    if (gpu == nullptr) return {.nvidia = true};
    const bool dgx2 = gpu->fit == "dgx-1v" && imported.node.kind == "nvswitch";
    return {.nvidia = true, .sm = gpu->sm, .fit = dgx2 ? "dgx-2" : std::string(gpu->fit)};
  }
  Gpus gpus;
  if (format != NodeFormat::kNccl) return gpus;
  const std::string text = WriteNcclXml(*ReadNcclXml(content, file));  // normalizes the quoting
  const size_t at = text.find(" sm=\"");
  if (text.find("<xgmi") != std::string::npos) return gpus;  // AMD's
  if (at == std::string::npos || !absl::SimpleAtoi(text.substr(at + 5, text.find('"', at + 5) - at - 5), &gpus.sm))
    return gpus;
  gpus.nvidia = true;
  const std::string volta = imported.node.kind == "nvswitch" ? "dgx-2" : "dgx-1v";
  gpus.fit = gpus.sm >= 100  ? "dgx-b200"
             : gpus.sm >= 90 ? "dgx-h100"
             : gpus.sm == 80 ? "dgx-a100"
             : gpus.sm == 70 ? volta
                             : "";
  return gpus;
}

// As in NCCL (src/graph/tuning.cc, by the minimum compute capability).
std::string GenerationOf(int sm) {
  return sm >= 100 ? "blackwell" : sm >= 90 ? "hopper" : sm >= 80 ? "ampere" : "volta";
}

// NVIDIA GPUs communicate by NCCL, with the constants of the catalogue's cluster with such GPUs, or of --device's
// cluster.
absl::Status AddLibrary(const Options& o, const Gpus& gpus, cluster::Cluster& c) {
  if (!gpus.nvidia) {
    LogInfo(o.cluster,
            " does not name a communication library: library ideal, without software costs, is assumed; set library in "
            "the cluster's file to change that");
    return absl::OkStatus();
  }
  const std::string from = o.device.empty() ? gpus.fit : o.device;
  if (!from.empty()) {
    const absl::StatusOr<cluster::Cluster> known = FindCluster(from, "--device");
    if (!known.ok()) return known.status();
    const bool same = gpus.sm == 0 || known->library().nccl().generation() == GenerationOf(gpus.sm);
    if (known->library().name() == "nccl" && same) *c.mutable_library() = known->library();
  }
  if (!c.has_library()) {
    c.mutable_library()->set_name("nccl");
    if (gpus.sm > 0)
      c.mutable_library()->mutable_nccl()->set_generation(GenerationOf(gpus.sm));
    else
      LogWarning(
          o.cluster,
          " does not name its GPUs: NCCL's constants for Ampere are assumed; put what `nvidia-smi -L` prints above "
          "the matrix, or take those of another cluster by --device=CLUSTER");
  }
  LogInfo("its library is nccl, with the constants of generation ", c.library().nccl().generation());
  return absl::OkStatus();
}

absl::Status AddDevice(const Options& o, const std::string& fitting, cluster::Cluster& c) {
  const std::string from = o.device.empty() ? fitting : o.device;
  if (from.empty()) {
    c.mutable_device()->set_name("assumed");
    c.mutable_device()->set_memory_bytes_per_second(1e12);
    c.mutable_device()->set_f32_flops_per_second(1e13);
    LogWarning(o.cluster,
               " does not describe its devices: 1 TB/s and 10 TFLOP/s are assumed, which hardly matter to `twofold "
               "topology` and `twofold bench`; --device=CLUSTER takes the figures of another cluster");
    return absl::OkStatus();
  }
  const absl::StatusOr<cluster::Cluster> known = FindCluster(from, "--device");
  if (!known.ok()) return known.status();
  *c.mutable_device() = known->device();
  LogInfo("device figures are those of ", from, " (", known->device().name(), ")");
  return absl::OkStatus();
}

// Of each NIC: what --nic-gbits says, else the slowest of the file.
absl::StatusOr<BytesPerSecond> NicRate(const Options& o, const ImportedNode& imported) {
  if (imported.node.nics.empty()) {
    return InvalidArgument("--nodes=", *o.nodes, ": ", o.cluster,
                           " has no NICs to join nodes by; import it on a machine that shows them");
  }
  if (o.nic_gbits) return BytesPerSecond(*o.nic_gbits * 1e9 / 8);
  BytesPerSecond least{std::numeric_limits<double>::infinity()};
  for (const BytesPerSecond speed : imported.nic_speeds) {
    if (speed.value() > 0) least = std::min(least, speed);
  }
  if (std::isfinite(least.value())) return least;
  return InvalidArgument("--nodes=", *o.nodes, ": ", o.cluster,
                         " does not state the speed of its NICs; say it, as in --nic-gbits=400 (Gb/s of each NIC)");
}

// nvidia-smi's matrix has no rates. That of PCIe is what --pcie-gbytes says, or that of --device's cluster; without
// either the file itself says it, by the GPUs' name.
absl::Status SetPcieRate(const Options& o, NodeFormat format, cluster::Node& node) {
  if (o.pcie_gbytes && format != NodeFormat::kSmi)
    return InvalidArgument("--pcie-gbytes=", NumberText(*o.pcie_gbytes), ": ", o.cluster,
                           " states the rates of its PCIe links; leave it out");
  if (o.pcie_gbytes && !(*o.pcie_gbytes > 0 && *o.pcie_gbytes <= 1e6))
    return InvalidArgument("--pcie-gbytes must be above 0 and at most 1,000,000 GB/s (got ", *o.pcie_gbytes, ")");
  std::optional<double> rate = o.pcie_gbytes;
  if (!rate && format == NodeFormat::kSmi && !o.device.empty()) {
    const absl::StatusOr<cluster::Cluster> known = FindCluster(o.device, "--device");
    if (!known.ok()) return known.status();
    if (known->machines().node().pcie_gbytes_per_second() > 0) {
      rate = known->machines().node().pcie_gbytes_per_second();
      LogInfo("PCIe links have the rate of those of ", o.device, ": ", NumberText(*rate), " GB/s");
    }
  }
  if (rate) node.set_pcie_gbytes_per_second(*rate);
  return absl::OkStatus();
}

absl::Status CheckNicRate(const Options& o) {
  if (!o.nic_gbits) return absl::OkStatus();
  if (!(*o.nic_gbits > 0 && *o.nic_gbits <= 1e6))
    return InvalidArgument("--nic-gbits must be above 0 and at most 1,000,000 Gb/s (got ", *o.nic_gbits, ")");
  if (o.nodes.value_or(1) == 1)
    return InvalidArgument(
        "--nic-gbits is the rate of the NICs between nodes; give --nodes=N, too, with N of at least 2");
  return absl::OkStatus();
}

// NICs of one speed share one switch that is never a bottleneck. The user must describe the real network between nodes.
absl::Status AddNetwork(const Options& o, const ImportedNode& imported, cluster::Cluster& c) {
  const int64_t nodes = o.nodes.value_or(1);
  c.mutable_machines()->set_nodes(nodes);
  if (nodes == 1) return absl::OkStatus();
  const absl::StatusOr<BytesPerSecond> rate = NicRate(o, imported);
  if (!rate.ok()) return rate.status();
  cluster::Network& network = *c.mutable_machines()->mutable_network();
  network.mutable_star();
  network.set_link_gbytes_per_second(rate->value() / 1e9);
  network.set_cable_us(0.025);
  network.set_switch_us(0.13);
  network.set_nic_us(0.6);
  LogInfo("between nodes: one switch that is never a bottleneck and NICs of ", RateShort(*rate),
          " are assumed; replace machines.network by the real network");
  return absl::OkStatus();
}

}  // namespace

absl::Status Import(const Options& o) {
  if (o.nodes && *o.nodes < 1) return InvalidArgument("--nodes must be at least 1 (got ", *o.nodes, ")");
  if (absl::Status s = CheckNicRate(o); !s.ok()) return s;
  if (absl::Status s = CheckOut(o.out); !s.ok()) return s;
  const absl::StatusOr<std::string> text = ReadWholeFile(o.cluster);
  if (!text.ok()) return text.status();
  const absl::StatusOr<NodeFormat> format = FormatOf(*text, o.cluster);
  if (!format.ok()) return format.status();
  if (!o.from.empty() && o.from != NodeFormatName(*format)) {
    return InvalidArgument("--from=", o.from, ": the content of ", o.cluster, " is of format ",
                           NodeFormatName(*format));
  }
  const absl::StatusOr<ImportedNode> imported = ReadImportedNode(*text, o.cluster);
  if (!imported.ok()) return imported.status();
  for (const std::string& note : imported->notes) LogInfo(note);
  cluster::Cluster c;
  c.set_name(o.name.empty() ? std::filesystem::path(o.cluster).filename().stem().stem().string() : o.name);
  c.set_summary(StrCat(imported->node.devices.size(), " devices and ", imported->node.nics.size(),
                       " NICs per node, from ", o.cluster));
  c.set_source(StrCat(o.cluster, ", read as ", NodeFormatName(*format)));
  const Gpus gpus = GpusOf(*format, *imported, o.cluster, *text);
  if (absl::Status s = AddDevice(o, gpus.fit, c); !s.ok()) return s;
  if (absl::Status s = AddLibrary(o, gpus, c); !s.ok()) return s;
  if (absl::Status s = AddNetwork(o, *imported, c); !s.ok()) return s;
  cluster::Node& node = *c.mutable_machines()->mutable_node();
  node.set_file(std::filesystem::absolute(o.cluster).lexically_normal().string());
  if (absl::Status s = SetPcieRate(o, *format, node); !s.ok()) return s;
  std::string out;
  google::protobuf::TextFormat::PrintToString(c, &out);
  return Write(o.out, out);
}

}  // namespace twofold::topology
