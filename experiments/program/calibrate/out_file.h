// What a calibration writes.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "core/proto/profile.pb.h"

namespace twofold::calibrate {

std::string CreatedNow();  // as a profile's `created`
// Without measurements.
profile::Profile ProfileOfThisMachine();
// Writes the message as text. Makes the folder above the file; a failure leaves an old file as it was. Errors begin
// with `flag`.
absl::Status Write(const google::protobuf::Message& message, std::string_view flag, const std::string& path);
void TellProgress(const std::string& line);  // to stderr

}  // namespace twofold::calibrate
