// twofold topology show|list: the figures of one cluster, with its picture, or those of the catalogue.
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/base/format.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "experiments/program/pictures/style.h"
#include "experiments/program/pictures/topology_picture.h"
#include "experiments/program/report/json.h"
#include "experiments/program/topology/options.h"
#include "experiments/program/topology/output.h"
#include "experiments/program/topology/subject.h"
#include "topologies/catalogue.h"
#include "topologies/figures.h"

namespace twofold::topology {
namespace {

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

}  // namespace

absl::Status Show(const Options& o) {
  absl::StatusOr<Subject> subject = Load(o.cluster, o.nodes);
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

absl::Status List(const Options& o) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  std::vector<std::vector<std::string>> rows = {
      {"cluster", "endpoints", "nodes", "switches", "cables", "diameter", "bisection"}};
  for (const ClusterInfo& info : ListClusters()) {
    absl::StatusOr<Subject> subject = Load(info.name, std::nullopt);
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

}  // namespace twofold::topology
