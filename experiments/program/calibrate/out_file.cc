#include "experiments/program/calibrate/out_file.h"

#include <filesystem>
#include <iostream>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/machine.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "experiments/program/report/files.h"
#include "google/protobuf/text_format.h"

namespace twofold::calibrate {

std::string CreatedNow() { return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone()); }

profile::Profile ProfileOfThisMachine() {
  profile::Profile profile;
  profile.set_name("this-machine");
  profile.set_created(CreatedNow());
  profile.set_processor(ProcessorName());
  return profile;
}

absl::Status Write(const google::protobuf::Message& message, std::string_view flag, const std::string& path) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(message, &text);
  const std::filesystem::path target(path), folder = target.has_parent_path() ? target.parent_path() : ".";
  const absl::Status written = WriteFiles(
      folder.string(), {{target.filename().string(), StrCat("# proto-message: ", message.GetTypeName(), "\n", text)}});
  return written.ok() ? written : InvalidArgument(flag, "=", written.message());
}

void TellProgress(const std::string& line) { std::cerr << line << "\n"; }

}  // namespace twofold::calibrate
