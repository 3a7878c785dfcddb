// twofold topology export: a cluster as a file to edit, for SimGrid or for Graphviz; and an imported file in its own
// format.
#include <algorithm>
#include <string>

#include "core/base/status.h"
#include "core/base/strings.h"
#include "experiments/program/report/files.h"
#include "experiments/program/topology/options.h"
#include "experiments/program/topology/output.h"
#include "experiments/program/topology/subject.h"
#include "google/protobuf/text_format.h"
#include "topologies/check_fields.h"
#include "topologies/import/graphviz.h"
#include "topologies/import/nccl_xml.h"
#include "topologies/import/node_file.h"
#include "topologies/import/simgrid_xml.h"
#include "topologies/import/smi_matrix.h"

namespace twofold::topology {
namespace {

// Writes an imported file in its own format, complete, including what our node type does not represent.
absl::Status ExportImported(const Options& o, const cluster::Cluster& c) {
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
absl::Status ExportCluster(const Options& o) {
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

}  // namespace

absl::Status Export(const Options& o) {
  if (absl::Status s = CheckOut(o.out); !s.ok()) return s;
  if (o.to == "cluster") return ExportCluster(o);
  if (o.to == "nccl" || o.to == "smi") {
    const absl::StatusOr<cluster::Cluster> c = Find(o.cluster);
    return c.ok() ? ExportImported(o, *c) : c.status();
  }
  const absl::StatusOr<Subject> subject = Load(o.cluster, o.nodes);
  if (!subject.ok()) return subject.status();
  if (o.to == "dot") return Write(o.out, DotOf(*subject->topology, subject->cluster.name(), subject->nodes));
  const cluster::Device& device = subject->cluster.device();
  const double flops = device.f32_flops_per_second() > 0 ? device.f32_flops_per_second() : 1e9;
  const int each = subject->topology->endpoints() / std::max(1, subject->topology->nodes());
  const absl::StatusOr<SimgridXml> xml = SimgridOf(*subject->topology, flops, each * subject->nodes);
  if (!xml.ok()) return Within(StrCat(o.cluster, ": "), xml.status());
  return Write(o.out, WriteSimgridXml(*xml));
}

}  // namespace twofold::topology
