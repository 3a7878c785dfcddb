// Converts NCCL's XML to a node: see nccl_xml.h.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "core/base/strings.h"
#include "topologies/import/nccl_xml.h"
#include "topologies/import/nearest_nic.h"

namespace twofold {
namespace {

int64_t Number(const XmlNode& at, std::string_view name, int64_t otherwise) {
  const std::string* text = at.Find(name);
  int64_t value = 0;
  return text != nullptr && absl::SimpleAtoi(*text, &value) ? value : otherwise;
}

BytesPerSecond NvlinkRate(int64_t sm) {
  if (sm >= 100) return BytesPerSecond(50e9);
  return BytesPerSecond(sm >= 70 ? 25e9 : 20e9);
}

// Latency between two devices, over one cable or through a switch: the catalogue's values for the data sheets'
// machines.
Seconds CableLatency(int64_t sm) { return Microseconds(sm < 80 ? 1.5 : 0.7); }
Seconds SwitchLatency(int64_t sm) { return Microseconds(sm < 80 ? 1.5 : sm < 90 ? 1.2 : 1); }

BytesPerSecond SocketRate(const XmlNode& cpu, BytesPerSecond otherwise) {
  const std::string arch = cpu.Get("arch"), vendor = cpu.Get("vendor");
  const int64_t family = Number(cpu, "familyid", 0), model = Number(cpu, "modelid", 0);
  if (arch == "ppc64") return BytesPerSecond(32e9);
  if (arch == "arm64") return BytesPerSecond(6e9);
  if (vendor == "AuthenticAMD") return BytesPerSecond(16e9);
  if (vendor == "CentaurHauls" || vendor == "  Shanghai  ") return BytesPerSecond(6e9);
  if (vendor != "GenuineIntel" || family != 6) return otherwise;
  return BytesPerSecond(model >= 0xcf ? 40e9 : model >= 0x8f ? 22e9 : model >= 0x55 ? 10e9 : 6e9);
}

class Converter {
 public:
  Converter(const NcclXml& xml, const ImportAssumptions& assumptions)
      : document_(xml.document), assumptions_(assumptions) {}

  absl::StatusOr<ImportedNode> Convert() {
    for (const XmlNode& cpu : document_.root().Elements()) {
      if (absl::Status s = AddCpu(cpu); !s.ok()) return s;
    }
    if (gpus_.empty())
      return XmlError(document_.file, document_.root(), "", "contains no <gpu>; dump it from a job that uses the GPUs");
    std::sort(gpus_.begin(), gpus_.end(), [](const Gpu& a, const Gpu& b) { return a.dev < b.dev; });
    for (const Gpu& gpu : gpus_) node().devices.push_back(gpu.vertex);
    for (const Gpu& gpu : gpus_) {
      if (absl::Status s = AddLinks(gpu); !s.ok()) return s;
    }
    JoinCpus();
    node().nic_of = NearestNics(node());
    node().kind = nvswitch_ >= 0 ? "nvswitch" : linked_ ? "nvlink" : "pcie_tree";
    node().multicast = nvswitch_ >= 0 && std::all_of(gpus_.begin(), gpus_.end(),
                                                     [](const Gpu& g) { return Number(*g.xml, "sm", 0) >= 90; });
    if (guessed_pcie_ > 0) {
      imported_.notes.push_back(
          StrCat(guessed_pcie_, " PCIe links have no link_speed or link_width; they are assumed to be x16 at 8 GT/s"));
    }
    for (const auto& [bus, count] : absent_) {
      imported_.notes.push_back(
          StrCat(count, " NVLinks to a GPU at ", bus, " were left out: the file does not contain this GPU"));
    }
    return std::move(imported_);
  }

 private:
  struct Gpu {
    int64_t dev;
    int vertex, cpu;
    const XmlNode* xml;
    std::string bus;
  };

  NodeType& node() { return imported_.node; }
  Graph& graph() { return imported_.node.graph; }

  absl::Status AddCpu(const XmlNode& cpu) {
    const std::string host = cpu.Get("host_hash"), name = StrCat("numa", Number(cpu, "numaid", 0));
    if (!cpus_.empty() && host != cpus_.front().second->Get("host_hash")) {
      return XmlError(document_.file, cpu, "host_hash",
                      "belongs to another host; dump the topology of a job within one node");
    }
    if (!names_.insert(name).second)
      return XmlError(document_.file, cpu, "numaid", "used by two CPUs; give each CPU its own");
    const int vertex = graph().AddVertex({.kind = Vertex::kHost, .name = name, .node = 0});
    cpus_.push_back({vertex, &cpu});
    for (const XmlNode& child : cpu.Elements()) {
      if (child.name == "nic") {  // not on PCIe: only its port limits it
        AddNets(child, vertex, kNoLimit, Medium::kMemory);
      } else if (absl::Status s = AddPci(child, vertex, vertex); !s.ok()) {
        return s;
      }
    }
    return absl::OkStatus();
  }

  BytesPerSecond PcieRate(const XmlNode& pci) {
    const std::string speed = pci.Get("link_speed");
    double transfers = 0;
    int64_t width = Number(pci, "link_width", 0);
    if (!absl::SimpleAtod(speed.substr(0, speed.find(' ')), &transfers) || !(transfers > 0)) transfers = 0;
    if (transfers == 0 || width <= 0) ++guessed_pcie_;
    if (transfers == 0) transfers = 8;
    if (width <= 0) width = 16;
    return BytesPerSecond(transfers * 1e9 * static_cast<double>(width) / 8 *
                          (transfers <= 5 ? 0.8 * kReached * 130 / 128 : kReached));
  }

  absl::Status AddPci(const XmlNode& pci, int parent, int cpu) {
    std::vector<const XmlNode*> inner, gpus, nics;
    for (const XmlNode& child : pci.Elements()) {
      (child.name == "gpu"   ? gpus
       : child.name == "nic" ? nics
       : child.name == "pci" ? inner
                             : ignored_)
          .push_back(&child);
    }
    if (inner.empty() && gpus.empty() && nics.empty()) return absl::OkStatus();  // a disk, or a bridge without devices
    const std::string bus = absl::AsciiStrToLower(pci.Get("busid"));
    const BytesPerSecond rate = PcieRate(pci);
    if (gpus.size() > 1 || (!gpus.empty() && (!inner.empty() || !nics.empty()))) {
      return XmlError(document_.file, pci, "busid",
                      "contains a <gpu> and other elements; a GPU needs a <pci> of its own");
    }
    if (!gpus.empty()) {
      const int64_t dev = Number(*gpus[0], "dev", 0);
      const int vertex = graph().AddVertex({.kind = Vertex::kDevice, .name = StrCat("gpu", dev), .node = 0});
      graph().AddCable(vertex, parent, rate, assumptions_.pcie_latency, Medium::kPcie);
      gpus_.push_back({dev, vertex, cpu, gpus[0], bus});
      return absl::OkStatus();
    }
    if (inner.empty() && nics.size() == 1 && std::ranges::distance(nics[0]->Elements()) == 1) {
      AddNets(*nics[0], parent, rate, Medium::kPcie);
      return absl::OkStatus();
    }
    const int vertex = graph().AddVertex({.kind = Vertex::kSwitch, .name = StrCat("pci ", bus), .node = 0});
    graph().AddCable(vertex, parent, rate, assumptions_.pcie_latency, Medium::kPcie);
    for (const XmlNode* nic : nics) AddNets(*nic, vertex, rate, Medium::kPcie);
    for (const XmlNode* child : inner) {
      if (absl::Status s = AddPci(*child, vertex, cpu); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  void AddNets(const XmlNode& nic, int parent, BytesPerSecond rate, Medium medium) {
    for (const XmlNode& net : nic.Elements()) {
      const int vertex = graph().AddVertex({.kind = Vertex::kNic, .name = StrCat("nic ", net.Get("name")), .node = 0});
      graph().AddCable(vertex, parent, rate, assumptions_.pcie_latency, medium);
      node().nics.push_back(vertex);
      const int64_t megabits = Number(net, "speed", 0);
      imported_.nic_speeds.push_back(BytesPerSecond(megabits > 0 ? static_cast<double>(megabits) * 1e6 / 8 : 0));
    }
  }

  int Switch() {
    if (nvswitch_ < 0)
      nvswitch_ = graph().AddVertex({.kind = Vertex::kSwitch, .name = "nvswitch", .node = 0, .level = 1});
    return nvswitch_;
  }

  // All links from one GPU to one other end are added up; the file may write them as several elements.
  absl::Status AddLinks(const Gpu& gpu) {
    double to_switch = 0, to_cpu = 0, coherent = 0;
    std::map<const Gpu*, int64_t> to_gpus;
    for (const XmlNode& link : gpu.xml->Elements()) {
      const double rate = link.name == "xgmi" ? 50e9 : NvlinkRate(Number(*gpu.xml, "sm", 0)).value();
      const int64_t count = Number(link, "count", 1);
      if (link.name == "c2c") {
        coherent += static_cast<double>(count * Number(link, "bw", 0)) * 1e6;
      } else if (link.Get("tclass") == "0x068000") {
        to_switch += static_cast<double>(count) * rate;
      } else if (link.Get("tclass") == "0x068001") {
        to_cpu += static_cast<double>(count) * rate;
      } else {
        const Gpu* other = Find(absl::AsciiStrToLower(link.Get("target")));
        if (other == &gpu) return XmlError(document_.file, link, "target", "must not be the GPU itself");
        if (other == nullptr) absent_[absl::AsciiStrToLower(link.Get("target"))] += count;
        if (other != nullptr) to_gpus[other] += count;
      }
    }
    if (to_switch > 0)
      graph().AddCable(gpu.vertex, Switch(), BytesPerSecond(to_switch), SwitchLatency(Number(*gpu.xml, "sm", 0)) / 2,
                       Medium::kNvlink);
    for (const double rate : {to_cpu, coherent}) {
      if (rate > 0)
        graph().AddCable(gpu.vertex, gpu.cpu, BytesPerSecond(rate), assumptions_.nvlink_latency, Medium::kNvlink);
    }
    return AddPairs(gpu, to_gpus);
  }

  absl::Status AddPairs(const Gpu& gpu, const std::map<const Gpu*, int64_t>& others) {
    for (const Gpu& other : gpus_) {  // in the order of devices, for repeatable results
      const auto found = others.find(&other);
      if (found == others.end()) continue;
      const int64_t back = Count(other, gpu.bus);
      if (back != found->second) {
        return XmlError(document_.file, *gpu.xml, "dev",
                        StrCat("has ", found->second, " links to dev ", other.dev, " (line ", other.xml->line,
                               "), which has ", back, " back; list every link at both of its ends"));
      }
      if (other.dev < gpu.dev) continue;  // a cable is added once, from its first end
      const double rate = Xgmi(gpu, other.bus) ? 50e9 : NvlinkRate(Number(*gpu.xml, "sm", 0)).value();
      graph().AddCable(gpu.vertex, other.vertex, BytesPerSecond(static_cast<double>(back) * rate),
                       CableLatency(Number(*gpu.xml, "sm", 0)), Medium::kNvlink);
      linked_ = true;
    }
    return absl::OkStatus();
  }

  bool Xgmi(const Gpu& gpu, const std::string& bus) const {
    return std::any_of(gpu.xml->children.begin(), gpu.xml->children.end(), [&](const XmlNode& n) {
      return n.name == "xgmi" && absl::AsciiStrToLower(n.Get("target")) == bus;
    });
  }
  int64_t Count(const Gpu& gpu, const std::string& bus) const {
    int64_t count = 0;
    for (const XmlNode& link : gpu.xml->Elements()) {
      if (link.name != "c2c" && absl::AsciiStrToLower(link.Get("target")) == bus) count += Number(link, "count", 1);
    }
    return count;
  }
  const Gpu* Find(const std::string& bus) const {
    const auto gpu = std::find_if(gpus_.begin(), gpus_.end(), [&](const Gpu& g) { return g.bus == bus; });
    return gpu == gpus_.end() ? nullptr : &*gpu;
  }

  void JoinCpus() {
    for (size_t a = 0; a < cpus_.size(); ++a) {
      for (size_t b = a + 1; b < cpus_.size(); ++b) {
        const BytesPerSecond rate = SocketRate(*cpus_[a].second, assumptions_.sockets);
        graph().AddCable(cpus_[a].first, cpus_[b].first, rate, assumptions_.pcie_latency, Medium::kMemory);
      }
    }
  }

  static constexpr BytesPerSecond kNoLimit{5e12};
  // share of PCIe's bit rate from 8 GT/s on, after encoding (128/130) and packet overhead
  static constexpr double kReached = 12.5 / 16;
  const XmlDocument& document_;
  const ImportAssumptions& assumptions_;
  ImportedNode imported_;
  std::vector<std::pair<int, const XmlNode*>> cpus_;  // vertex and element
  std::vector<Gpu> gpus_;
  std::vector<const XmlNode*> ignored_;  // pcilink: between PCIe switches; NCCL uses it to flatten them
  std::set<std::string> names_;
  std::map<std::string, int64_t> absent_;  // links to GPUs that are not in the file
  int nvswitch_ = -1, guessed_pcie_ = 0;
  bool linked_ = false;
};

}  // namespace

absl::StatusOr<ImportedNode> NodeOf(const NcclXml& xml, const ImportAssumptions& assumptions) {
  return Converter(xml, assumptions).Convert();
}

}  // namespace twofold
