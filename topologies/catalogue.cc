#include "topologies/catalogue.h"

#include <fstream>
#include <sstream>
#include <utility>

#include "core/base/strings.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "topologies/catalogue_texts.h"  // made by CMake from catalogue/*.textproto

namespace twofold {
namespace {

class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (text_.empty()) text_ = StrCat(line + 1, ":", column + 1, ": ", message);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

absl::Status CheckPositive(std::string_view file, std::string_view field, double value) {
  if (value > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(StrCat(file, ": ", field, " = ", value, ": must be greater than 0"));
}

absl::Status Check(std::string_view file, const cluster::Cluster& c) {
  if (c.name().empty()) return absl::InvalidArgumentError(StrCat(file, ": name: missing; give the cluster a name"));
  std::vector<std::pair<std::string_view, double>> positive;
  const cluster::Device& d = c.device();
  if (d.kind() == cluster::Device::GPU_DEVICE) {
    positive = {{"device.memory_bytes", static_cast<double>(d.memory_bytes())},
                {"device.memory_bytes_per_second", d.memory_bytes_per_second()},
                {"device.f32_flops_per_second", d.f32_flops_per_second()},
                {"device.matmul_efficiency", d.matmul_efficiency()},
                {"device.memory_efficiency", d.memory_efficiency()}};
  }
  for (const auto& [field, value] : {std::pair("device.host_link_gbytes_per_second", d.host_link_gbytes_per_second()),
                                     std::pair("device.host_link_us", d.host_link_us()),
                                     std::pair("device.host_memory_bytes", static_cast<double>(d.host_memory_bytes()))}) {
    if (!(value >= 0)) return absl::InvalidArgumentError(StrCat(file, ": ", field, " = ", value, ": must not be negative"));
  }
  if (c.has_star()) {
    positive.insert(positive.end(), {{"star.hosts", static_cast<double>(c.star().hosts())},
                                     {"star.link_gbytes_per_second", c.star().link_gbytes_per_second()},
                                     {"star.latency_us", c.star().latency_us()}});
    if (c.star().devices_per_host() != 1) {
      return absl::InvalidArgumentError(StrCat(file, ": star.devices_per_host = ", c.star().devices_per_host(),
                                                     ": a star has one device a host; use 1"));
    }
  } else if (!c.has_shared_memory_host()) {
    return absl::InvalidArgumentError(StrCat(file, ": topology: missing; use star {} or shared_memory_host {}"));
  }
  for (const auto& [field, value] : positive) {
    if (absl::Status s = CheckPositive(file, field, value); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::StatusOr<cluster::Cluster> Parse(std::string_view file, std::string_view text) {
  cluster::Cluster c;
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(std::string(text), &c)) {
    return absl::InvalidArgumentError(StrCat(file, ":", error.text()));
  }
  if (absl::Status s = Check(file, c); !s.ok()) return s;
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
    return absl::NotFoundError(StrCat(field, ": no cluster or .textproto file is called \"",
                                            name_or_path, "\"; the catalogue has ", absl::StrJoin(names, ", ")));
  }
  std::stringstream text;
  text << in.rdbuf();
  return Parse(name_or_path, text.str());
}

}  // namespace twofold
