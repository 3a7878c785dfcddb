#include "topologies/import/simgrid_xml.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

constexpr absl::string_view kOfZone =
    "zone AS cluster cabinet peer host router link backbone host_link route ASroute zoneRoute bypassRoute "
    "bypassASroute bypassZoneRoute trace trace_connect trace__connect storage storage_type prop include";
// SimGrid's elements (its simgrid.dtd, version 4.1).
constexpr XmlRule kRules[] = {{"platform", "version", "config zone AS cluster random trace trace_connect include"},
                              {"config", "", "prop"},
                              {"prop", "id value"},
                              {"zone", "id routing", kOfZone},
                              {"AS", "id routing", kOfZone},
                              {"host", "id speed", "prop disk mount"},
                              {"disk", "id", "prop"},
                              {"mount", ""},
                              {"router", "id", "prop"},
                              {"link", "id bandwidth", "prop"},
                              {"backbone", "id bandwidth latency"},
                              {"host_link", "id up down"},
                              {"cluster", "prefix radical suffix speed bw lat", "prop"},
                              {"cabinet", "id prefix radical suffix speed bw lat", "prop"},
                              {"peer", "id speed bw_in bw_out"},
                              {"route", "src dst", "link_ctn"},
                              {"bypassRoute", "src dst", "link_ctn"},
                              {"zoneRoute", "src dst gw_src gw_dst", "link_ctn"},
                              {"ASroute", "src dst gw_src gw_dst", "link_ctn"},
                              {"bypassZoneRoute", "src dst gw_src gw_dst", "link_ctn"},
                              {"bypassASroute", "src dst gw_src gw_dst", "link_ctn"},
                              {"link_ctn", "id"},
                              {"trace", "id", "", true},
                              {"trace_connect", "trace element"},
                              {"trace__connect", "trace element"},
                              {"storage", "id", "prop"},
                              {"storage_type", "id", "prop model_prop", true},
                              {"model_prop", "id value"},
                              {"random", "id"},
                              {"include", "file"}};

struct FigureRule {
  std::string_view element, attribute;
  SimgridUnit unit;
};
constexpr FigureRule kFigures[] = {{"host", "speed", SimgridUnit::kSpeed},
                                   {"cluster", "speed", SimgridUnit::kSpeed},
                                   {"link", "bandwidth", SimgridUnit::kBandwidth},
                                   {"link", "latency", SimgridUnit::kTime},
                                   {"backbone", "bandwidth", SimgridUnit::kBandwidth},
                                   {"backbone", "latency", SimgridUnit::kTime},
                                   {"cluster", "bw", SimgridUnit::kBandwidth},
                                   {"cluster", "lat", SimgridUnit::kTime},
                                   {"cluster", "bb_bw", SimgridUnit::kBandwidth},
                                   {"cluster", "bb_lat", SimgridUnit::kTime},
                                   {"peer", "speed", SimgridUnit::kSpeed},
                                   {"peer", "bw_in", SimgridUnit::kBandwidth},
                                   {"peer", "bw_out", SimgridUnit::kBandwidth}};

std::string_view Example(SimgridUnit unit) {
  return unit == SimgridUnit::kBandwidth ? "125MBps" : unit == SimgridUnit::kTime ? "50us" : "1Gf";
}

class Checker {
 public:
  explicit Checker(const XmlDocument& document) : document_(document) {}

  absl::Status Check() {
    const XmlNode& root = document_.root();
    if (root.name != "platform") return Error(root, "", "the root element of a SimGrid platform must be <platform>");
    const std::string* version = root.Find("version");
    if (version == nullptr || (*version != "4" && *version != "4.0" && *version != "4.1")) {
      return Error(root, "version", "must be 4 or 4.1; convert older files with simgrid_update_xml");
    }
    const auto check = [this](const XmlNode& at) {
      const absl::Status figures = Figures(at);
      return figures.ok() ? Ids(at) : figures;
    };
    if (absl::Status s = CheckElements(document_, kRules, check); !s.ok()) return s;
    return CheckRoutes(root);
  }

 private:
  absl::Status Error(const XmlNode& at, std::string_view attribute, const auto&... what) const {
    return XmlError(document_.file, at, attribute, StrCat(what...));
  }

  absl::Status Figures(const XmlNode& at) const {
    for (const FigureRule& rule : kFigures) {
      const std::string* text = at.name == rule.element ? at.Find(rule.attribute) : nullptr;
      if (text == nullptr) continue;
      // speeds: one for each state
      for (const absl::string_view part : absl::StrSplit(*text, rule.unit == SimgridUnit::kSpeed ? ',' : '\n')) {
        const double value = SimgridFigure(std::string_view(part.data(), part.size()), rule.unit);
        if (value > 0 || (value == 0 && rule.unit == SimgridUnit::kTime)) continue;
        return Error(at, rule.attribute, "must be a number with its unit, such as \"", Example(rule.unit), "\"");
      }
    }
    if (const std::string* policy = at.name == "link" ? at.Find("sharing_policy") : nullptr; policy != nullptr) {
      for (const std::string_view known : {"SHARED", "SPLITDUPLEX", "FATPIPE", "WIFI", "FULLDUPLEX"}) {
        if (*policy == known) return absl::OkStatus();
      }
      return Error(at, "sharing_policy", "must be SHARED, SPLITDUPLEX, FATPIPE or WIFI");
    }
    return absl::OkStatus();
  }

  // Links and places have separate name spaces.
  absl::Status Ids(const XmlNode& at) {
    const bool link = at.name == "link" || at.name == "backbone";
    if (!link && at.name != "host" && at.name != "router" && at.name != "zone" && at.name != "AS" && at.name != "peer")
      return absl::OkStatus();
    auto& names = link ? links_ : places_;
    const auto [first, added] = names.try_emplace(*at.Find("id"), &at);
    return added ? absl::OkStatus()
                 : Error(at, "id", "also used on line ", first->second->line, "; ids must be unique");
  }

  absl::Status CheckRoutes(const XmlNode& at) const {
    for (const XmlNode& child : at.Elements()) {
      if (child.name == "route") {
        if (absl::Status s = CheckRoute(child); !s.ok()) return s;
      } else if (absl::Status s = CheckRoutes(child); !s.ok()) {
        return s;
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckRoute(const XmlNode& route) const {
    for (const char* end : {"src", "dst"}) {
      if (!places_.contains(*route.Find(end))) return Error(route, end, "no host or router has this id");
    }
    for (const XmlNode& part : route.Elements()) {
      const auto link = links_.find(*part.Find("id"));
      if (link == links_.end()) return Error(part, "id", "no link has this id");
      const std::string *policy = link->second->Find("sharing_policy"), *direction = part.Find("direction");
      const bool split = policy != nullptr && *policy == "SPLITDUPLEX";
      if (split != (direction != nullptr) || (direction != nullptr && *direction != "UP" && *direction != "DOWN")) {
        return Error(part, "direction",
                     split ? "must be UP or DOWN: the link is SPLITDUPLEX" : "only SPLITDUPLEX links have a direction");
      }
    }
    return absl::OkStatus();
  }

  const XmlDocument& document_;
  std::map<std::string, const XmlNode*> links_, places_;
};

XmlNode MakeElement(std::string name, std::vector<XmlAttribute> attributes) {
  return {.name = std::move(name), .attributes = std::move(attributes)};
}

// Whether two links join the same vertices in opposite directions with equal figures.
bool IsCable(const Link& there, const Link& back) {
  return there.from >= 0 && there.to >= 0 && there.from == back.to && there.to == back.from &&
         there.bandwidth == back.bandwidth && there.latency == back.latency;
}

// Keeps names that occur once; numbers the others.
std::vector<std::string> UniqueNames(std::vector<std::string> names, std::string_view prefix) {
  std::map<std::string, int> count;
  for (const std::string& name : names) ++count[name];
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty() || count[names[i]] > 1) names[i] = StrCat(prefix, i, names[i].empty() ? "" : " ", names[i]);
  }
  return names;
}

}  // namespace

absl::StatusOr<SimgridXml> ReadSimgridXml(std::string_view text, std::string_view file) {
  absl::StatusOr<XmlDocument> document = ReadXml(text, file);
  if (!document.ok()) return document.status();
  if (absl::Status s = Checker(*document).Check(); !s.ok()) return s;
  return SimgridXml{*std::move(document)};
}

std::string WriteSimgridXml(const SimgridXml& xml) { return WriteXml(xml.document); }

namespace {

// The default routes of all ordered pairs in order; empty for from == to.
absl::StatusOr<std::vector<std::vector<int>>> RoutesOf(const Topology& topology, int n) {
  std::vector<std::vector<int>> routes;
  int64_t total = 0;
  for (Pair pair{0, 0}; pair.from < n; ++pair.from) {
    for (pair.to = 0; pair.to < n; ++pair.to) {
      std::vector<int>& route = routes.emplace_back();
      if (pair.from == pair.to) continue;
      topology.Route(pair, topology.DefaultRoute(pair), route);
      total += static_cast<int64_t>(route.size());
      if (total <= kMostSimgridRouteLinks) continue;
      return InvalidArgument("a Full zone of ", n, " endpoints would have ", int64_t{n} * (n - 1),
                             " routes with more than ", kMostSimgridRouteLinks, " links in total; export fewer nodes");
    }
  }
  return routes;
}

}  // namespace

absl::StatusOr<SimgridXml> SimgridOf(const Topology& topology, double flops_per_second, int endpoints) {
  const int n = endpoints < 0 ? topology.endpoints() : std::min(endpoints, topology.endpoints());
  const absl::StatusOr<std::vector<std::vector<int>>> routes = RoutesOf(topology, n);
  if (!routes.ok()) return routes.status();
  std::vector<bool> used(topology.links().size());
  for (const std::vector<int>& route : *routes) {
    for (const int link : route) used[static_cast<size_t>(link)] = true;
  }
  std::vector<std::string> hosts, links;
  for (int i = 0; i < n; ++i) {
    hosts.push_back(
        static_cast<size_t>(i) < topology.vertices().size() ? topology.vertices()[static_cast<size_t>(i)].name : "");
  }
  for (const Link& link : topology.links()) links.push_back(link.name);
  hosts = UniqueNames(std::move(hosts), "host");
  links = UniqueNames(std::move(links), "link");

  XmlNode zone = MakeElement("zone", {{"id", "world"}, {"routing", "Full"}});
  for (const std::string& host : hosts)
    zone.children.push_back(
        MakeElement("host", {{"id", host}, {"speed", absl::StrFormat("%.17gf", flops_per_second)}}));
  std::vector<XmlNode> parts(links.size());  // how a route refers to this link
  for (size_t i = 0; i < links.size(); ++i) {
    const Link& link = topology.links()[i];
    const bool cable = i + 1 < links.size() && IsCable(link, topology.links()[i + 1]);
    if (used[i] || (cable && used[i + 1])) {
      zone.children.push_back(MakeElement("link", {{"id", links[i]},
                                                   {"bandwidth", absl::StrFormat("%.17gBps", link.bandwidth.value())},
                                                   {"latency", absl::StrFormat("%.17gs", link.latency.value())},
                                                   {"sharing_policy", cable ? "SPLITDUPLEX" : "SHARED"}}));
    }
    parts[i] = MakeElement("link_ctn", {{"id", links[i]}});
    if (!cable) continue;
    parts[i + 1] = MakeElement("link_ctn", {{"id", links[i]}, {"direction", "DOWN"}});
    parts[i++].attributes.push_back({"direction", "UP"});
  }
  for (size_t r = 0; r < routes->size(); ++r) {
    const size_t from = r / static_cast<size_t>(n), to = r % static_cast<size_t>(n);
    if (from == to) continue;
    XmlNode element = MakeElement("route", {{"src", hosts[from]}, {"dst", hosts[to]}, {"symmetrical", "NO"}});
    for (const int link : (*routes)[r]) element.children.push_back(parts[static_cast<size_t>(link)]);
    zone.children.push_back(std::move(element));
  }
  SimgridXml xml{{.file = "platform",
                  .declared = true,
                  .type_name = "platform",
                  .type_system = "https://simgrid.org/simgrid.dtd"}};
  xml.document.nodes.push_back(MakeElement("platform", {{"version", "4.1"}}));
  xml.document.nodes[0].children.push_back(std::move(zone));
  return xml;
}

namespace {

// `value` in the unit given by `suffix`; negative if that is not a unit.
double WithUnit(double value, std::string_view suffix, SimgridUnit unit) {
  while (suffix.starts_with(' ')) suffix.remove_prefix(1);
  if (suffix.empty()) return value;  // SimGrid's base unit
  if (unit == SimgridUnit::kTime) {
    static const std::map<std::string_view, double> kTimes = {{"w", 604800}, {"d", 86400}, {"h", 3600},
                                                              {"m", 60},     {"s", 1},     {"ms", 1e-3},
                                                              {"us", 1e-6},  {"ns", 1e-9}, {"ps", 1e-12}};
    const auto found = kTimes.find(suffix);
    return found == kTimes.end() ? -1 : value * found->second;
  }
  double base = 1;
  if (unit == SimgridUnit::kSpeed) {
    if (suffix.ends_with("flops"))
      suffix.remove_suffix(5);
    else if (suffix.ends_with("f"))
      suffix.remove_suffix(1);
    else
      return -1;
  } else {
    if (suffix.ends_with("bps"))
      base = 1.0 / 8;
    else if (!suffix.ends_with("Bps"))
      return -1;
    suffix.remove_suffix(3);
  }
  static constexpr std::string_view kPrefixes[] = {"k", "M", "G", "T", "P", "E", "Z", "Y"};
  if (suffix.empty()) return value * base;
  if (suffix == "Ki") return value * base * 1024;
  for (size_t p = 0; p < std::size(kPrefixes); ++p) {
    if (suffix == kPrefixes[p]) return value * base * std::pow(1000, static_cast<double>(p) + 1);
    if (suffix == StrCat(kPrefixes[p], "i")) return value * base * std::pow(1024, static_cast<double>(p) + 1);
  }
  return -1;
}

}  // namespace

double SimgridFigure(std::string_view text, SimgridUnit unit) {
  const size_t first = text.find_first_not_of(" ");
  const size_t end = text.find_first_not_of("0123456789.+-eE", first == std::string_view::npos ? 0 : first);
  double value = 0;
  // "1e3Bps" is a number with a unit. In "1E" followed by "Bps" the E is part of the unit (exa), so the number is
  // parsed from the front.
  const std::string number(text.substr(0, end));
  std::string_view suffix = end == std::string_view::npos ? "" : text.substr(end);
  if (!absl::SimpleAtod(number, &value)) {
    const size_t digits = text.find_first_not_of("0123456789.", first == std::string_view::npos ? 0 : first);
    if (digits == std::string_view::npos || !absl::SimpleAtod(std::string(text.substr(0, digits)), &value)) return -1;
    suffix = text.substr(digits);
  }
  const double figure = WithUnit(value, suffix, unit);
  return value >= 0 && std::isfinite(figure) ? figure : -1;
}

}  // namespace twofold
