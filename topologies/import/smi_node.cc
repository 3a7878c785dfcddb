// Converts the matrix of nvidia-smi to a node: see smi_matrix.h.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "topologies/import/gpu_names.h"
#include "topologies/import/nearest_nic.h"
#include "topologies/import/smi_matrix.h"
#include "topologies/import/union_find.h"

namespace twofold {
namespace {

constexpr int kMostLinksOfAGpu = 18;  // on H100 and B200

enum Kind { kPix, kPxb, kPhb, kNode, kSys, kHidden };  // kHidden: NV# or X
constexpr const char* kNames[] = {"PIX", "PXB", "PHB", "NODE", "SYS"};

Kind KindOf(const std::string& relation) {
  for (int k = kPix; k <= kSys; ++k) {
    if (relation == kNames[k]) return static_cast<Kind>(k);
  }
  return kHidden;
}

int Links(const std::string& relation) {
  int links = 0;
  return relation.starts_with("NV") && absl::SimpleAtoi(relation.substr(2), &links) ? links : 0;
}

class Converter {
 public:
  Converter(const SmiMatrix& matrix, const ImportAssumptions& assumptions)
      : matrix_(matrix), assumptions_(assumptions), size_(matrix.rows.size()), names_(matrix.GpuNames()) {
    const NamedGpu *named = names_.empty() ? nullptr : FindGpu(names_[0]), *gpu = named ? named : FindGpu("A100");
    nvlink_ = assumptions.nvlink.value_or(gpu->nvlink);
    pcie_ = assumptions.pcie.value_or(gpu->pcie);
    by_name_ = named != nullptr;
  }

  absl::StatusOr<ImportedNode> Convert() {
    for (size_t level = 0; level < kSys; ++level) classes_.push_back(ClassesOf(static_cast<Kind>(level)));
    if (absl::Status s = Consistent(); !s.ok()) return s;
    AddThings();
    AddTree();
    AddNvlinks();
    node().nic_of = NearestNics(node());
    imported_.nic_speeds.assign(node().nics.size(), BytesPerSecond(0));
    if (!names_.empty()) imported_.gpu = names_[0];
    Note();
    return std::move(imported_);
  }

 private:
  NodeType& node() { return imported_.node; }
  Graph& graph() { return imported_.node.graph; }
  const std::string& Between(size_t a, size_t b) const { return matrix_.rows[a].relations[b]; }
  bool Gpu(size_t i) const { return matrix_.rows[i].name.starts_with("GPU"); }

  // The classes of things that are at `kind` or nearer to each other. Affinities give the domains if NV# hides them.
  UnionFind ClassesOf(Kind kind) const {
    UnionFind classes(static_cast<int>(size_));
    for (size_t a = 0; a < size_; ++a) {
      for (size_t b = 0; b < a; ++b) {
        const Kind between = KindOf(Between(a, b));
        if (between <= kind || (kind == kNode && between == kHidden && SameDomain(a, b)))
          classes.Join(static_cast<int>(a), static_cast<int>(b));
      }
    }
    return classes;
  }

  bool SameDomain(size_t a, size_t b) const {
    const std::vector<std::string>&one = matrix_.rows[a].affinities, &other = matrix_.rows[b].affinities;
    return !one.empty() && !other.empty() && one[0] != "N/A" && one[0] == other[0];
  }

  int ClassOf(size_t thing, size_t level) { return classes_[level].Of(static_cast<int>(thing)); }

  absl::Status Consistent() {
    for (size_t a = 0; a < size_; ++a) {
      for (size_t b = 0; b < a; ++b) {
        const Kind said = KindOf(Between(a, b));
        if (said == kHidden) continue;
        for (size_t level = kPix; level < said; ++level) {
          if (ClassOf(a, level) != ClassOf(b, level)) continue;
          return InvalidArgument(matrix_.file, ": ", matrix_.rows[b].name, " and ", matrix_.rows[a].name, " are ",
                                 kNames[said], ", but the other relations imply ", kNames[level],
                                 " or nearer; check that the matrix is of one machine");
        }
      }
    }
    return absl::OkStatus();
  }

  void AddThings() {
    std::map<std::string, int> names;
    for (size_t i = 0; i < size_; ++i) {
      const SmiMatrix::Row& row = matrix_.rows[i];
      std::string name = Gpu(i) ? StrCat("gpu", row.name.substr(3)) : StrCat("nic ", matrix_.InterfaceOf(row.name));
      if (names[name]++ > 0) name = StrCat("nic ", row.name);  // two NICs with one name in the legend
      const int vertex = graph().AddVertex({.kind = Gpu(i) ? Vertex::kDevice : Vertex::kNic, .name = name, .node = 0});
      (Gpu(i) ? node().devices : node().nics).push_back(vertex);
      things_.push_back(vertex);
    }
  }

  // Adds a vertex for each class of two or more at each level, below the vertex of the next level.
  void AddTree() {
    std::vector<int> top = things_;  // by thing: the vertex that represents it so far
    for (size_t level = 0; level < kSys; ++level) {
      std::map<int, std::vector<int>> members;
      for (size_t i = 0; i < size_; ++i) {
        std::vector<int>& list = members[ClassOf(i, level)];
        if (std::find(list.begin(), list.end(), top[i]) == list.end()) list.push_back(top[i]);
      }
      std::map<int, int> made;
      for (const auto& [root, list] : members) {
        // Every domain has a vertex; a switch needs at least two things below it.
        if (list.size() < 2 && level != kNode) continue;
        made[root] = AddAbove(static_cast<Kind>(level), list, static_cast<int>(counts_[level]++));
      }
      for (size_t i = 0; i < size_; ++i) {
        const auto found = made.find(ClassOf(i, level));
        if (found != made.end()) top[i] = found->second;
      }
      if (level == kNode) Join(made);
    }
  }

  int AddAbove(Kind level, const std::vector<int>& members, int number) {
    static constexpr const char* kPrefixes[] = {"pci", "pci root", "bridge", "numa"};
    const bool host = level >= kPhb;
    const int vertex = graph().AddVertex(
        {.kind = host ? Vertex::kHost : Vertex::kSwitch, .name = StrCat(kPrefixes[level], number), .node = 0});
    for (const int member : members) {
      const bool bridge = graph().vertices[static_cast<size_t>(member)].kind == Vertex::kHost;
      graph().AddCable(member, vertex, bridge ? assumptions_.within_socket : pcie_,
                       bridge ? assumptions_.socket_latency : assumptions_.pcie_latency,
                       bridge ? Medium::kMemory : Medium::kPcie);
    }
    return vertex;
  }

  void Join(const std::map<int, int>& domains) {
    for (auto a = domains.begin(); a != domains.end(); ++a) {
      for (auto b = std::next(a); b != domains.end(); ++b) {
        graph().AddCable(a->second, b->second, assumptions_.sockets, assumptions_.socket_latency, Medium::kMemory);
      }
    }
  }

  void AddNvlinks() {
    int most = 0, any = 0;
    for (size_t a = 0; a < size_; ++a) {
      int sum = 0;
      for (size_t b = 0; b < size_; ++b) sum += Links(Between(a, b));
      most = std::max(most, sum);
      any += sum;
    }
    node().kind = any == 0 ? "pcie_tree" : most > kMostLinksOfAGpu ? "nvswitch" : "nvlink";
    if (any == 0) return;
    const int hub = most > kMostLinksOfAGpu
                        ? graph().AddVertex({.kind = Vertex::kSwitch, .name = "nvswitch", .node = 0, .level = 1})
                        : -1;
    for (size_t a = 0; a < size_; ++a) {
      int widest = 0;
      for (size_t b = 0; b < size_; ++b) {
        widest = std::max(widest, Links(Between(a, b)));
        if (hub < 0 && b < a && Links(Between(a, b)) > 0) AddNvlink(things_[b], things_[a], Links(Between(a, b)));
      }
      if (hub >= 0 && widest > 0) AddNvlink(things_[a], hub, widest);
    }
  }
  void AddNvlink(int a, int b, int links) {
    graph().AddCable(a, b, nvlink_ * static_cast<double>(links), assumptions_.nvlink_latency, Medium::kNvlink);
  }

  void Note() {
    const auto gigabytes = [](BytesPerSecond rate) { return absl::StrFormat("%.3g", rate.value() / 1e9); };
    imported_.notes.push_back(
        StrCat("nvidia-smi reports no bandwidths; ", by_name_ ? StrCat("for ", names_[0], " assumed") : "assumed",
               ", in GB/s each way: ", gigabytes(nvlink_), " per NVLink, ", gigabytes(pcie_), " per PCIe link, ",
               gigabytes(assumptions_.within_socket), " between host bridges, ", gigabytes(assumptions_.sockets),
               " between NUMA domains"));
    if (names_.size() > 1) {
      imported_.notes.push_back(
          StrCat("the GPUs differ: ", absl::StrJoin(names_, ", "), "; all are taken for the first of these"));
    }
    if (node().kind == "nvswitch")
      imported_.notes.push_back(
          "the matrix shows more NVLinks per GPU than a GPU has; they are assumed to go to an NVSwitch");
  }

  const SmiMatrix& matrix_;
  const ImportAssumptions& assumptions_;
  const size_t size_;
  const std::vector<std::string> names_;  // of the GPUs
  BytesPerSecond nvlink_, pcie_;
  bool by_name_ = false;            // the rates are those of GPUs that the text names
  std::vector<UnionFind> classes_;  // by level
  std::vector<int> things_;         // vertices, by row
  size_t counts_[kSys] = {};
  ImportedNode imported_;
};

}  // namespace

absl::StatusOr<ImportedNode> NodeOf(const SmiMatrix& matrix, const ImportAssumptions& assumptions) {
  return Converter(matrix, assumptions).Convert();
}

}  // namespace twofold
