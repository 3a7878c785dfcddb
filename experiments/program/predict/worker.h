// A process of a pool (processes.h): answers requests, one after another.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "core/proto/prediction.pb.h"
#include "core/proto/report.pb.h"
#include "core/proto/spec.pb.h"

namespace twofold::prediction {

inline constexpr char kGreeting[] = "twofold predicts, 3";
// What a process is started with: the socket, and the reading end of a pipe that nobody writes to. The pipe closes with
// the other process.
inline constexpr int kSocket = 3, kPipe = 4;

struct Answers {
  // The report of a spec; errors begin with `file`.
  std::function<absl::StatusOr<report::Report>(spec::Spec spec, const std::string& file)> predict;
  // The answer to a question, a JSON object. Called in the question's folder.
  std::function<absl::StatusOr<std::string>(const Question& question)> answer;
};
// Answers until the other ends are closed; what is at work when that of the pipe is closed gets SIGTERM. Returns the
// process's exit status.
int Serve(int socket, int pipe, const Answers& answers);

}  // namespace twofold::prediction
