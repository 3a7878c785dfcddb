// A process of a Predictor: answers requests, one after another.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "core/proto/report.pb.h"
#include "core/proto/spec.pb.h"

namespace twofold::prediction {

inline constexpr char kGreeting[] = "twofold predicts, 1";
// The socket that a process is started with.
inline constexpr int kSocket = 3;

// The answer to a request: a spec, and the name that begins errors.
using Predict = std::function<absl::StatusOr<report::Report>(spec::Spec spec, const std::string& file)>;
// Answers until the predictor closes the socket. Returns the process's exit status.
int Serve(int socket, const Predict& predict);

}  // namespace twofold::prediction
