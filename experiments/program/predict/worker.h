// A process of a pool (processes.h): answers requests, one after another.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "core/proto/prediction.pb.h"
#include "core/proto/report.pb.h"
#include "core/proto/spec.pb.h"

namespace twofold::prediction {

inline constexpr char kGreeting[] = "twofold predicts, 2";
// The socket that a process is started with.
inline constexpr int kSocket = 3;

struct Answers {
  // The report of a spec; errors begin with `file`.
  std::function<absl::StatusOr<report::Report>(spec::Spec spec, const std::string& file)> predict;
  // The answer to a question, a JSON object. Called in the question's folder.
  std::function<absl::StatusOr<std::string>(const Question& question)> answer;
};
// Answers until the other end closes the socket; what is at work then gets SIGTERM. Returns the process's exit status.
int Serve(int socket, const Answers& answers);

}  // namespace twofold::prediction
