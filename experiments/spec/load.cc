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
  // A preset on the command line replaces the file's model, and is there before other settings change its
  // sizes.
  const auto chooses_preset = [](absl::string_view set) {
    return absl::StripAsciiWhitespace(set.substr(0, set.find('='))) == "model.preset";
  };
  for (const std::string& set : sets) {
    if (!chooses_preset(set)) continue;
    if (absl::Status status = ApplySet(*spec, set); !status.ok()) return status;
  }
  if (absl::Status status = ExpandPreset(*spec, file); !status.ok()) return status;
  for (const std::string& set : sets) {
    if (chooses_preset(set)) continue;
    if (absl::Status status = ApplySet(*spec, set); !status.ok()) return status;
  }
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
