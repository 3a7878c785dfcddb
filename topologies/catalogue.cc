#include "topologies/catalogue.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/base/strings.h"
#include "core/base/suggestion.h"
#include "core/proto/parse_text.h"
#include "core/proto/spec.pb.h"
#include "topologies/build.h"
#include "topologies/catalogue_texts.h"  // made by CMake from catalogue/*.textproto
#include "topologies/check_fields.h"

namespace twofold {
namespace {

absl::Status CheckDevice(const cluster::Device& d) {
  Checks checks;
  if (d.kind() == cluster::Device::GPU_DEVICE) {
    checks << CheckPositive("device.memory_bytes", static_cast<double>(d.memory_bytes()))
           << CheckPositive("device.memory_bytes_per_second", d.memory_bytes_per_second())
           << CheckPositive("device.f32_flops_per_second", d.f32_flops_per_second())
           << CheckPositive("device.matmul_efficiency", d.matmul_efficiency())
           << CheckPositive("device.memory_efficiency", d.memory_efficiency());
  }
  return checks << CheckNotNegative("device.host_link_gbytes_per_second", d.host_link_gbytes_per_second())
                << CheckNotNegative("device.host_link_us", d.host_link_us())
                << CheckNotNegative("device.host_memory_bytes", static_cast<double>(d.host_memory_bytes()));
}

absl::Status Check(const cluster::Cluster& c) {
  if (c.name().empty()) return absl::InvalidArgumentError("name: missing; give the cluster a name");
  return Checks() << CheckDevice(c.device()) << CheckCluster(c);
}

absl::StatusOr<cluster::Cluster> Parse(std::string_view file, std::string_view text) {
  cluster::Cluster c;
  if (const absl::Status parsed = ParseText(std::string(text), std::string(file), c); !parsed.ok()) {
    if (spec::Spec spec; !ParseText(std::string(text), std::string(file), spec).ok()) return parsed;
    return absl::InvalidArgumentError(StrCat(file, ": is a spec, not a cluster; give a name of `twofold list clusters`, or a cluster's .textproto"));
  }
  if (c.machines().node().has_file()) {  // named as seen from the cluster's file
    const std::filesystem::path node = c.machines().node().file(), folder = std::filesystem::path(file).parent_path();
    c.mutable_machines()->mutable_node()->set_file((folder / node).string());
  }
  if (c.device().has_profile()) {
    const std::filesystem::path profile = c.device().profile(), folder = std::filesystem::path(file).parent_path();
    c.mutable_device()->set_profile((folder / profile).string());
  }
  if (absl::Status s = Check(c); !s.ok()) return Within(StrCat(file, ": "), s);
  return c;
}

}  // namespace

std::vector<ClusterInfo> ListClusters() {
  std::vector<ClusterInfo> list;
  for (const auto& [file, text] : kCatalogueTexts) {
    const cluster::Cluster c = *Parse(file, text);
    list.push_back({c.name(), c.summary(), c.source()});
  }
  return list;
}

absl::StatusOr<cluster::Cluster> FindCluster(std::string_view name_or_path, std::string_view field) {
  std::vector<std::string> names;
  for (const auto& [file, text] : kCatalogueTexts) {
    absl::StatusOr<cluster::Cluster> c = Parse(file, text);
    if (!c.ok()) return c.status();
    if (c->name() == name_or_path) return c;
    names.push_back(c->name());
  }
  std::ifstream in{std::string(name_or_path)};
  if (!in || !name_or_path.ends_with(".textproto")) {
    return absl::NotFoundError(StrCat(field, ": no cluster or .textproto file is called \"", name_or_path, "\"",
                                      Suggestion(name_or_path, names)));
  }
  std::stringstream text;
  text << in.rdbuf();
  return Parse(name_or_path, text.str());
}

std::optional<std::string_view> FindCatalogueProfile(std::string_view name) {
  for (const auto& [file, text] : kCatalogueProfiles) {
    if (file == name) return text;
  }
  return std::nullopt;
}

}  // namespace twofold
