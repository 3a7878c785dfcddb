// twofold topology show|list|import|export
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "core/base/format.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/proto/fields.h"
#include "experiments/program/cli/log.h"
#include "experiments/program/commands.h"
#include "experiments/program/pictures/style.h"
#include "experiments/program/pictures/topology_picture.h"
#include "experiments/program/report/files.h"
#include "experiments/program/report/json.h"
#include "google/protobuf/text_format.h"
#include "topologies/build.h"
#include "topologies/catalogue.h"
#include "topologies/figures.h"
#include "topologies/grow.h"
#include "topologies/import/gpu_names.h"
#include "topologies/import/graphviz.h"
#include "topologies/import/nccl_xml.h"
#include "topologies/import/node_file.h"
#include "topologies/import/simgrid_xml.h"
#include "topologies/import/smi_matrix.h"

namespace twofold {
namespace {

struct TopologyOptions {
  std::string cluster, out, from, to, device, name;
  std::optional<int64_t> nodes;       // absent: all nodes
  std::optional<double> nic_gbits;    // of an imported node's NICs; absent: as its file states
  std::optional<double> pcie_gbytes;  // of an imported matrix's PCIe links; absent: by --device or the GPUs' name
  bool json = false;
};

// The subject of a command, as a topology: a cluster by name, a cluster file, or an imported file.
struct Subject {
  cluster::Cluster cluster;
  std::unique_ptr<Topology> topology;
  std::optional<NodeType> node;
  int nodes = 1;  // of the cluster, or as requested
};

absl::Status Within(std::string_view where, const absl::Status& status) {
  return absl::Status(status.code(), StrCat(where, ": ", std::string(status.message())));
}

// Files other than .textproto are imported; the cluster is then one such node.
absl::StatusOr<cluster::Cluster> Find(const std::string& name) {
  std::error_code none;
  if (name.ends_with(".textproto") || !std::filesystem::is_regular_file(name, none))
    return FindCluster(name, "topology");
  cluster::Cluster c;
  c.set_name(std::filesystem::path(name).filename().string());
  c.set_summary(StrCat("imported from ", name));
  c.mutable_machines()->set_nodes(1);
  c.mutable_machines()->mutable_node()->set_file(name);
  return c;
}

// A host with shared memory may have any number of ranks: by default its number of cores, else 4.
absl::StatusOr<int> NodesOf(cluster::Cluster& c, std::optional<int64_t> asked) {
  if (asked) {
    std::string note;  // the figures say it
    if (absl::Status s = Grow(*asked, "--nodes=", c, note); !s.ok()) return s;
    return static_cast<int>(*asked);
  }
  if (!c.has_shared_memory_host()) return static_cast<int>(MostNodes(c));
  return static_cast<int>(c.shared_memory_host().cores() > 0 ? c.shared_memory_host().cores() : 4);
}

absl::StatusOr<Subject> Load(const TopologyOptions& o) {
  absl::StatusOr<cluster::Cluster> c = Find(o.cluster);
  if (!c.ok()) return c.status();
  const absl::StatusOr<int> nodes = NodesOf(*c, o.nodes);  // may grow it
  if (!nodes.ok()) return nodes.status();
  Subject subject{.cluster = *std::move(c), .nodes = *nodes};
  absl::StatusOr<std::unique_ptr<Topology>> topology = BuildTopology(subject.cluster, subject.nodes);
  if (!topology.ok()) return Within(o.cluster, topology.status());
  subject.topology = *std::move(topology);
  if (!subject.cluster.has_machines()) return subject;
  absl::StatusOr<NodeType> node = BuildNode(subject.cluster.machines());
  if (!node.ok()) return Within(o.cluster, node.status());
  if (node->graph.vertices.size() > 1) subject.node = *std::move(node);
  return subject;
}

bool ToStdout(const std::string& out) { return out.empty() || out == "-"; }

absl::Status CheckOut(const std::string& out) { return ToStdout(out) ? absl::OkStatus() : CheckOutFile("--out", out); }

absl::Status Write(const std::string& path, const std::string& text, bool quiet = false) {
  if (ToStdout(path)) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return absl::OkStatus();
  }
  std::ofstream file(path, std::ios::binary);
  if (!(file << text) || !file.flush()) return Internal("--out=", path, ": cannot be written");
  if (!quiet) std::printf("%s\n", path.c_str());
  return absl::OkStatus();
}

std::string RateShort(BytesPerSecond rate) {
  return rate.value() >= 1e12 ? absl::StrFormat("%.4g TB/s", rate.value() / 1e12)
                              : absl::StrFormat("%.4g GB/s", rate.value() / 1e9);
}
int64_t Switches(const Figures& f) {
  int64_t sum = 0;
  for (const int n : f.switches) sum += n;
  return sum;
}

nlohmann::ordered_json FiguresJson(const std::string& name, const Figures& f) {
  return {{"name", name},
          {"endpoints", f.endpoints},
          {"nodes", f.nodes},
          {"switches", f.switches},
          {"node_switches", f.node_switches},
          {"nics", f.nics},
          {"cables", f.cables},
          {"node_cables", f.node_cables},
          {"diameter", f.diameter},
          {"bisection_bytes_per_second", f.bisection.value()}};
}

// ---- show ----

absl::Status Show(const TopologyOptions& o) {
  absl::StatusOr<Subject> subject = Load(o);
  if (!subject.ok()) return subject.status();
  const std::string out =
      o.out.empty() ? StrCat(std::filesystem::path(subject->cluster.name()).stem().string(), ".svg") : o.out;
  if (absl::Status s = CheckOut(out); !s.ok()) return s;
  const Figures figures = FiguresOf(*subject->topology);
  if (o.json) {
    if (o.out == "-") return InvalidArgument("--json and --out=- both want stdout; give the picture a file");
    nlohmann::ordered_json json = FiguresJson(subject->cluster.name(), figures);
    json["summary"] = subject->cluster.summary(), json["source"] = subject->cluster.source();
    std::printf("%s", JsonText(json).c_str());
    if (o.out.empty()) return absl::OkStatus();
  } else {
    const std::string& summary = subject->cluster.summary();
    std::printf("%s%s%s\n%s", subject->cluster.name().c_str(), summary.empty() ? "" : ": ", summary.c_str(),
                FiguresText(*subject->topology, figures).c_str());
    if (!subject->cluster.source().empty()) std::printf("sources: %s\n", subject->cluster.source().c_str());
  }
  pictures::TopologyStory story;
  story.title = StrCat(subject->cluster.name(), " (", std::string(subject->topology->kind()),
                       subject->topology->nodes() > 1 ? ")" : ", one node)");
  story.subtitle = StrCat(
      Counted(figures.endpoints, "endpoint"),
      figures.nodes > 1 && figures.nodes < figures.endpoints ? StrCat(" in ", CountText(figures.nodes), " nodes") : "",
      Switches(figures) > 0 ? StrCat(", ", Counted(Switches(figures), "switch"), " and ", CountText(figures.cables),
                                     " cables between nodes")
                            : "",
      figures.diameter > 0
          ? StrCat("; diameter ", figures.diameter, " links, bisection ", RateShort(figures.bisection), " each way")
          : "");
  story.cluster = &subject->cluster;
  story.topology = subject->topology.get();
  story.node = std::move(subject->node);
  return Write(out, pictures::StandAlone(pictures::TopologyPicture(story)), o.json);
}

// ---- list ----

absl::Status List(const TopologyOptions& o) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  std::vector<std::vector<std::string>> rows = {
      {"cluster", "endpoints", "nodes", "switches", "cables", "diameter", "bisection"}};
  for (const ClusterInfo& info : ListClusters()) {
    absl::StatusOr<Subject> subject = Load({.cluster = info.name});
    if (!subject.ok()) return subject.status();
    const Figures f = FiguresOf(*subject->topology);
    json.push_back(FiguresJson(info.name, f));
    rows.push_back({info.name, CountText(f.endpoints), CountText(f.nodes), CountText(Switches(f)), CountText(f.cables),
                    f.diameter > 0 ? StrCat(f.diameter) : "-", f.bisection.value() > 0 ? RateShort(f.bisection) : "-"});
  }
  if (o.json) {
    std::printf("%s", JsonText(json).c_str());
    return absl::OkStatus();
  }
  std::printf("%s", TableText(rows).c_str());
  std::printf(
      "\nSwitches and cables are those between nodes; the bisection is the bandwidth each way between the first and "
      "the last half of the endpoints.\n");
  return absl::OkStatus();
}

// ---- import ----

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
absl::Status AddLibrary(const TopologyOptions& o, const Gpus& gpus, cluster::Cluster& c) {
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

absl::Status AddDevice(const TopologyOptions& o, const std::string& fitting, cluster::Cluster& c) {
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
absl::StatusOr<BytesPerSecond> NicRate(const TopologyOptions& o, const ImportedNode& imported) {
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
absl::Status SetPcieRate(const TopologyOptions& o, NodeFormat format, cluster::Node& node) {
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

absl::Status CheckNicRate(const TopologyOptions& o) {
  if (!o.nic_gbits) return absl::OkStatus();
  if (!(*o.nic_gbits > 0 && *o.nic_gbits <= 1e6))
    return InvalidArgument("--nic-gbits must be above 0 and at most 1,000,000 Gb/s (got ", *o.nic_gbits, ")");
  if (o.nodes.value_or(1) == 1)
    return InvalidArgument(
        "--nic-gbits is the rate of the NICs between nodes; give --nodes=N, too, with N of at least 2");
  return absl::OkStatus();
}

// NICs of one speed share one switch that is never a bottleneck. The user must describe the real network between nodes.
absl::Status AddNetwork(const TopologyOptions& o, const ImportedNode& imported, cluster::Cluster& c) {
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

absl::Status Import(const TopologyOptions& o) {
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

// ---- export ----

// Writes an imported file in its own format, complete, including what our node type does not represent.
absl::Status ExportImported(const TopologyOptions& o, const cluster::Cluster& c) {
  const std::string file = c.machines().node().file();
  const absl::StatusOr<std::string> text = file.empty() ? NotFound("") : ReadWholeFile(file);
  const absl::StatusOr<NodeFormat> format = text.ok() ? FormatOf(*text, file) : text.status();
  if (!format.ok() || NodeFormatName(*format) != o.to) {
    return InvalidArgument("--to=", o.to, ": ", o.cluster,
                           " was not imported from a file of that format; use simgrid or dot");
  }
  if (*format == NodeFormat::kNccl) {
    const absl::StatusOr<NcclXml> xml = ReadNcclXml(*text, file);
    return xml.ok() ? Write(o.out, WriteNcclXml(*xml)) : xml.status();
  }
  const absl::StatusOr<SmiMatrix> matrix = ReadSmiMatrix(*text, file);
  return matrix.ok() ? Write(o.out, WriteSmiMatrix(*matrix)) : matrix.status();
}

// As a description to edit.
absl::Status ExportCluster(const TopologyOptions& o) {
  absl::StatusOr<cluster::Cluster> c = Find(o.cluster);
  if (!c.ok()) return c.status();
  if (o.nodes) {
    if (const absl::StatusOr<int> nodes = NodesOf(*c, o.nodes); !nodes.ok()) return nodes.status();
    if (c->has_machines()) c->mutable_machines()->set_nodes(*o.nodes);
    if (c->has_star()) c->mutable_star()->set_hosts(*o.nodes);
  }
  std::string text;
  google::protobuf::TextFormat::PrintToString(*c, &text);
  return Write(o.out, StrCat("# ", o.cluster, "; core/proto/cluster.proto says what the fields mean\n", text));
}

absl::Status Export(const TopologyOptions& o) {
  if (absl::Status s = CheckOut(o.out); !s.ok()) return s;
  if (o.to == "cluster") return ExportCluster(o);
  if (o.to == "nccl" || o.to == "smi") {
    const absl::StatusOr<cluster::Cluster> c = Find(o.cluster);
    return c.ok() ? ExportImported(o, *c) : c.status();
  }
  const absl::StatusOr<Subject> subject = Load(o);
  if (!subject.ok()) return subject.status();
  if (o.to == "dot") return Write(o.out, DotOf(*subject->topology, subject->cluster.name(), subject->nodes));
  const cluster::Device& device = subject->cluster.device();
  const double flops = device.f32_flops_per_second() > 0 ? device.f32_flops_per_second() : 1e9;
  const int each = subject->topology->endpoints() / std::max(1, subject->topology->nodes());
  const absl::StatusOr<SimgridXml> xml = SimgridOf(*subject->topology, flops, each * subject->nodes);
  if (!xml.ok()) return Within(o.cluster, xml.status());
  return Write(o.out, WriteSimgridXml(*xml));
}

Command Add(const Command& topology, const std::string& name, const std::string& summary,
            absl::Status (*run)(const TopologyOptions&), const std::shared_ptr<TopologyOptions>& options,
            int& exit_status) {
  const Command command = topology.AddCommand(name, summary);
  command.OnParsed([run, options, &exit_status] {
    const absl::Status status = run(*options);
    if (status.ok()) return;
    LogError(status.message());
    exit_status = absl::IsInternal(status) ? kExitFailed : kExitWrongInput;
  });
  return command;
}

constexpr char kExitText[] = "\n\nExit status: 0 fine; 1 the output cannot be written; 2 wrong input.";
constexpr const char* kSubjectHelp =
    "a name of `twofold topology list`, a cluster's .textproto, or a file of NCCL, nvidia-smi or SimGrid";

}  // namespace

void AddTopologyCommand(const Command& program, int& exit_status) {
  const Command topology = program.AddCommand(
      "topology", "draws clusters, prints their figures, and reads and writes the formats of other programs");
  topology.RequireCommand();
  const auto options = std::make_shared<TopologyOptions>();

  const Command show =
      Add(topology, "show", "draws a cluster as SVG (nodes, switches, link widths) and prints its figures", Show,
          options, exit_status);
  show.AddOption("CLUSTER", options->cluster, kSubjectHelp).Required();
  show.AddOption("--nodes=N", options->nodes,
                 "number of nodes used; default: all. A fat tree grows if it has fewer. A star or a full mesh is built "
                 "with these nodes only, any other "
                 "network with all its nodes (except with --nodes=1)");
  show.AddOption("--out=FILE", options->out, "the picture to write; default: NAME.svg in the current folder");
  show.AddFlag("--json", options->json, "print the figures as JSON; the picture is then written only with --out");
  show.Footer(
      std::string(
          "For a large cluster, only a part is drawn; the picture says what is left out. The figures are those of the\n"
          "whole cluster.\n"
          "Examples:\n  twofold topology show dgx-h100\n  twofold topology show mine.textproto --out=mine.svg\n  "
          "twofold topology show system.xml   # what NCCL_TOPO_DUMP_FILE wrote") +
      kExitText);

  const Command list =
      Add(topology, "list", "the catalogue with its figures: endpoints, switches, cables, diameter, bisection", List,
          options, exit_status);
  list.AddFlag("--json", options->json, "print JSON: the figures of each cluster");
  list.Footer(
      std::string("`twofold list clusters` describes each of them.\n"
                  "Examples:\n  twofold topology list\n  twofold topology show dgx-h100     # one of them, drawn") +
      kExitText);

  const Command import = Add(topology, "import", "makes a cluster file from the description of a node or platform",
                             Import, options, exit_status);
  import
      .AddOption("FILE", options->cluster,
                 "NCCL's XML (NCCL_TOPO_DUMP_FILE), the text of `nvidia-smi topo -m` with that of `nvidia-smi -L` "
                 "above it, or a SimGrid platform")
      .Required();
  import.AddOption("--from=FORMAT", options->from, "nccl, smi or simgrid; default: recognised by the content")
      .OneOf({"nccl", "smi", "simgrid"});
  import.AddOption(
      "--nodes=N", options->nodes,
      "number of such nodes, joined by one switch that is never a bottleneck; default: 1, without a network");
  import.AddOption("--nic-gbits=RATE", options->nic_gbits,
                   "of each NIC, in Gb/s each way, for --nodes; default: that of the slowest in the file. nvidia-smi's "
                   "matrix has none");
  import.AddOption("--pcie-gbytes=RATE", options->pcie_gbytes,
                   "of 16 lanes of PCIe, in GB/s each way, for nvidia-smi's matrix, which has none; default: that of "
                   "--device's cluster, or of the GPUs that the file names");
  import.AddOption(
      "--device=CLUSTER", options->device,
      "a cluster that has the same device (memory, rates); default: chosen by the architecture that NCCL's "
      "file names, or by the GPUs' name in nvidia-smi's");
  import.AddOption("--name=NAME", options->name, "the name of the cluster; default: that of the file");
  import.AddOption("--out=FILE", options->out, "the .textproto to write; default: stdout");
  import.Footer(
      std::string(
          "The cluster file refers to the imported file, which must stay where it is. NVIDIA GPUs get library nccl\n"
          "with the constants of their generation. A SimGrid platform gets library ideal, without software costs.\n"
          "Examples:\n  NCCL_TOPO_DUMP_FILE=node.xml mpirun -n 8 all_reduce_perf      # once, on the machine\n"
          "  twofold topology import node.xml --nodes=16 --out=mine.textproto\n  twofold bench all_reduce "
          "--fabric=simulated --cluster=mine.textproto\n"
          "  (nvidia-smi -L; nvidia-smi topo -m) > node.txt      # the GPUs' names, and the matrix\n"
          "  twofold topology import node.txt --nodes=16 --nic-gbits=200 --out=mine.textproto") +
      kExitText);

  const Command out =
      Add(topology, "export",
          "writes a cluster as a file to edit, or for SimGrid or Graphviz, or writes an imported file back", Export,
          options, exit_status);
  out.AddOption("CLUSTER", options->cluster, kSubjectHelp).Required();
  out.AddOption(
         "--to=FORMAT", options->to,
         "cluster (a description to edit), simgrid or dot; nccl or smi only for a cluster that was imported from "
         "such a file")
      .Required()
      .OneOf({"cluster", "simgrid", "dot", "nccl", "smi"});
  out.AddOption("--nodes=N", options->nodes, "number of nodes; default: all");
  out.AddOption("--out=FILE", options->out, "the file to write; default: stdout");
  out.Footer(
      std::string("Examples:\n  twofold topology export dgx-h100 --to=cluster --nodes=1024 --out=mine.textproto\n"
                  "  twofold topology export dgx-h100 --to=simgrid --nodes=16 --out=platform.xml\n  "
                  "twofold topology export dgx-1v --to=dot | dot -Tsvg > dgx-1v.svg") +
      kExitText);
  topology.Footer(
      std::string(
          "Examples:\n  twofold topology list\n  twofold topology show dgx-h100\n  twofold topology import node.xml "
          "--out=mine.textproto\n"
          "  twofold topology export dgx-h100 --to=simgrid --nodes=4\n`twofold topology SUBCOMMAND --help` has "
          "details.") +
      kExitText);
}

}  // namespace twofold
