#include <google/protobuf/util/message_differencer.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/strip.h"
#include "core/base/strings.h"
#include "experiments/spec/spec.h"

namespace twofold {
namespace {

// Whether reading the preset again, once this spec is written out, would change nothing.
bool PresetStillFits(const spec::Spec& spec, const std::string& file) {
  spec::Spec again = spec;
  return ExpandPreset(again, file).ok() && google::protobuf::util::MessageDifferencer::Equals(spec, again);
}

}  // namespace

absl::StatusOr<spec::Spec> ResolveSpec(const std::string& text, const std::string& file,
                                       std::string_view fabric, absl::Span<const std::string> sets) {
  absl::StatusOr<spec::Spec> spec = ParseSpec(text, file);
  if (!spec.ok()) return spec.status();
  if (!fabric.empty()) {
    if (absl::Status status = ApplyFabric(*spec, fabric); !status.ok()) return status;
  }
  // A model on the command line replaces the file's, and is there before other settings change its sizes; what a
  // config.json becomes depends on model.attention.
  const auto apply = [&](auto chosen) {
    for (const std::string& set : sets) {
      if (!chosen(absl::StripAsciiWhitespace(absl::string_view(set).substr(0, set.find('='))))) continue;
      if (absl::Status status = ApplySet(*spec, set); !status.ok()) return status;
    }
    return absl::OkStatus();
  };
  const auto is_model = [](absl::string_view path) { return path == "model.preset" || path == "model.hf_config"; };
  const auto is_attention = [](absl::string_view path) { return path == "model.attention"; };
  if (absl::Status status = apply(is_model); !status.ok()) return status;
  if (absl::Status status = apply(is_attention); !status.ok()) return status;
  if (absl::Status status = ExpandPreset(*spec, file); !status.ok()) return status;
  if (absl::Status status = ExpandHfConfig(*spec, file); !status.ok()) return status;
  if (absl::Status status = apply([&](absl::string_view path) { return !is_model(path); }); !status.ok()) return status;
  FillDefaults(*spec, file);
  if (!PresetStillFits(*spec, file)) spec->mutable_model()->clear_preset();
  if (absl::Status status = Validate(*spec, file); !status.ok()) return status;
  return spec;
}

absl::StatusOr<spec::Spec> LoadSpec(const std::string& path, std::string_view fabric,
                                    absl::Span<const std::string> sets) {
  std::error_code error;
  const bool folder = std::filesystem::is_directory(path, error);
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in || folder) {
    return absl::InvalidArgumentError(
        StrCat(path, ": cannot be read: ", folder ? "it is a folder" : std::strerror(errno),
               "; give the path of a spec, a .textproto file"));
  }
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  return ResolveSpec(text, path, fabric, sets);
}

}  // namespace twofold
