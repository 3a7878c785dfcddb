#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <istream>
#include <map>
#include <regex>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/fabric_name.h"
#include "core/proto/parse_text.h"
#include "experiments/program/spec/beside_spec.h"
#include "experiments/program/spec/json_text.h"
#include "experiments/program/spec/presets.h"
#include "experiments/program/spec/set_files.h"
#include "experiments/program/spec/spec.h"

namespace twofold {
namespace {

constexpr size_t kLongestSpec = 1 << 20;

// The file's content, read to at most one byte more than the longest spec.
std::string Read(std::istream& in) {
  std::string text(kLongestSpec + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  return text;
}

// The path of an assignment "path = value".
absl::string_view PathOf(absl::string_view set) { return absl::StripAsciiWhitespace(set.substr(0, set.find('='))); }

// Whether expanding the preset again, once this spec is written out, would change nothing.
bool PresetStillFits(const spec::Spec& spec, const std::string& file) {
  spec::Spec again = spec;
  return ExpandPreset(again, file).ok() && google::protobuf::util::MessageDifferencer::Equals(spec, again);
}

std::string LaterVersion(int64_t version) {
  return StrCat("schema_version: ", version, " is of a later version of Twofold; this one reads ", kSpecSchemaVersion,
                ". Use the version that wrote the spec, or a later one");
}

// A spec of a later version has fields that this program does not know: then the version is the cause, not the field.
absl::Status BlameVersion(const absl::Status& parsed, const std::string& text, const std::string& file) {
  static const std::regex written("schema_version\"?\\s*:\\s*(\\d{1,18})");
  std::smatch found;
  int64_t version = 0;
  if (!std::regex_search(text, found, written) || !absl::SimpleAtoi(found[1].str(), &version)) return parsed;
  return version > kSpecSchemaVersion ? InvalidArgument(file, ": ", LaterVersion(version)) : parsed;
}

// Not part of what is run.
absl::Status TakeVersion(spec::Spec& spec, const std::string& file) {
  const int64_t version = spec.has_schema_version() ? spec.schema_version() : kSpecSchemaVersion;
  spec.clear_schema_version();
  if (version > kSpecSchemaVersion) return InvalidArgument(file, ": ", LaterVersion(version));
  if (version < 1) return InvalidArgument(file, ": schema_version: must be 1 or more (got ", version, ")");
  return absl::OkStatus();
}

}  // namespace

std::string SpecFileText(spec::Spec spec) {
  spec.set_schema_version(kSpecSchemaVersion);
  return SpecToText(spec);
}

absl::StatusOr<spec::Spec> ParseSpec(const std::string& text, const std::string& file) {
  if (text.size() > kLongestSpec)
    return InvalidArgument(file, ": is too long; a spec has at most ", kLongestSpec, " bytes");
  spec::Spec spec;
  if (IsJson(text, file)) {
    const absl::Status parsed = ParseJsonText(text, file, spec);
    if (!parsed.ok()) return BlameVersion(parsed, text, file);
  } else if (const absl::Status parsed = ParseText(text, file, spec); !parsed.ok()) {
    if (cluster::Cluster cluster; !ParseText(text, file, cluster).ok()) return BlameVersion(parsed, text, file);
    return InvalidArgument(file, ": is a cluster, not a spec; name it in a spec as fabric { simulated { cluster: \"",
                           file, "\" } }");
  }
  if (const absl::Status version = TakeVersion(spec, file); !version.ok()) return version;
  return spec;
}

absl::Status BlameSets(const absl::Status& status, const std::string& file, absl::Span<const std::string> sets) {
  // Whether `path` is `block` or inside it.
  const auto within = [](absl::string_view path, absl::string_view block) {
    return absl::ConsumePrefix(&path, block) && (path.empty() || path.front() == '.' || path.front() == '[');
  };
  const absl::StatusOr<std::vector<Setting>> settings = ReadSets(sets);
  if (!settings.ok()) return status;
  const auto source = [&](absl::string_view path) {
    std::map<absl::string_view, std::string> blamed;  // keyed by path: the last assignment counts
    for (const Setting& setting : *settings) {
      const absl::string_view changed = PathOf(setting.assignment);
      if (within(path, changed) || within(changed, path)) blamed[changed] = setting.source;
    }
    std::vector<std::string> sources;
    for (const auto& [changed, written] : blamed)
      if (std::find(sources.begin(), sources.end(), written) == sources.end()) sources.push_back(written);
    return sources.empty() ? file : absl::StrJoin(sources, " ");
  };
  std::vector<std::string> lines = absl::StrSplit(status.message(), '\n');
  for (std::string& line : lines) {
    absl::string_view rest = line;
    if (!absl::ConsumePrefix(&rest, StrCat(file, ": "))) continue;
    if (const size_t end = rest.find(": "); end != rest.npos) line = StrCat(source(rest.substr(0, end)), ": ", rest);
  }
  return absl::Status(status.code(), absl::StrJoin(lines, "\n"));
}

namespace {

absl::StatusOr<spec::Spec> Given(const std::string& text, const std::string& file, std::string_view fabric,
                                 absl::Span<const std::string> sets) {
  absl::StatusOr<spec::Spec> spec = ParseSpec(text, file);
  if (!spec.ok()) return spec.status();
  if (!fabric.empty()) {
    if (absl::Status status = ApplyFabric(*spec, fabric); !status.ok()) return status;
  }
  const absl::StatusOr<std::vector<Setting>> settings = ReadSets(sets);
  if (!settings.ok()) return settings.status();
  // A model on the command line replaces the file's, and is applied before other settings change its sizes. The result
  // of a config.json depends on model.attention.
  const auto apply = [&](auto chosen) {
    for (const Setting& setting : *settings) {
      if (!chosen(PathOf(setting.assignment))) continue;
      if (absl::Status status = ApplySet(*spec, setting.assignment); !status.ok()) return status;
      if (!fabric.empty() && FabricName(*spec) != fabric) {
        return InvalidArgument(setting.source, ": contradicts --fabric=", fabric, "; leave one out");
      }
    }
    return absl::OkStatus();
  };
  const auto is_model = [](absl::string_view path) {
    return path == "model" || path == "model.preset" || path == "model.hf_config";
  };
  const auto is_attention = [](absl::string_view path) { return path == "model.attention"; };
  if (absl::Status status = apply(is_model); !status.ok()) return status;
  if (absl::Status status = apply(is_attention); !status.ok()) return status;
  if (absl::Status status = ExpandPreset(*spec, file); !status.ok()) return status;
  if (absl::Status status = ExpandHfConfig(*spec, file); !status.ok()) return status;
  if (absl::Status status = apply([&](absl::string_view path) { return !is_model(path); }); !status.ok()) return status;
  FindFilesBesideSpec(*spec, file);
  if (absl::Status status = ExpandFramework(*spec, file); !status.ok()) return status;
  if (absl::Status version = TakeVersion(*spec, file); !version.ok()) return version;  // of a --set
  return spec;
}

absl::StatusOr<spec::Spec> Resolve(const std::string& text, const std::string& file, std::string_view fabric,
                                   absl::Span<const std::string> sets) {
  absl::StatusOr<spec::Spec> spec = Given(text, file, fabric, sets);
  if (!spec.ok()) return spec.status();
  FillDefaults(*spec, file);
  if (absl::Status status = ExpandRoutingFile(*spec, file); !status.ok()) return status;
  if (!PresetStillFits(*spec, file)) spec->mutable_model()->clear_preset();
  if (absl::Status status = Validate(*spec, file); !status.ok()) return status;
  return spec;
}

}  // namespace

absl::StatusOr<spec::Spec> GivenSpec(const std::string& text, const std::string& file, std::string_view fabric,
                                     absl::Span<const std::string> sets) {
  absl::StatusOr<spec::Spec> spec = Given(text, file, fabric, sets);
  if (!spec.ok()) return BlameSets(spec.status(), file, sets);
  return spec;
}

absl::StatusOr<spec::Spec> ResolveSpec(const std::string& text, const std::string& file, std::string_view fabric,
                                       absl::Span<const std::string> sets) {
  absl::StatusOr<spec::Spec> spec = Resolve(text, file, fabric, sets);
  if (!spec.ok()) return BlameSets(spec.status(), file, sets);
  return spec;
}

namespace {

// What to give instead of a path that cannot be read.
std::string InsteadOf(const std::string& path) {
  std::error_code none;
  for (const char* ending : {".textproto", ".json"}) {
    if (std::filesystem::is_regular_file(path + ending, none)) return StrCat("did you mean ", path, ending, "?");
  }
  for (const ModelPreset& model : ModelPresets()) {
    if (path == model.name)
      return StrCat("this is a model; `twofold init my.textproto --model=", path, "` writes a spec of it");
  }
  return "give the path of a spec, a .textproto or .json file";
}

}  // namespace

absl::StatusOr<std::string> ReadSpecText(const std::string& path) {
  std::error_code error;
  const bool folder = std::filesystem::is_directory(path, error);
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (in && !folder) return Read(in);
  return InvalidArgument(path, ": cannot be read: ", folder ? "it is a folder" : std::strerror(errno), "; ",
                         InsteadOf(path));
}

absl::StatusOr<spec::Spec> LoadSpec(const std::string& path, std::string_view fabric,
                                    absl::Span<const std::string> sets) {
  const absl::StatusOr<std::string> text = ReadSpecText(path);
  if (!text.ok()) return text.status();
  return ResolveSpec(*text, path, fabric, sets);
}

}  // namespace twofold
