// Many predictions: a pool of processes, each of which predicts one job after another.
//
//   absl::StatusOr<std::unique_ptr<Predictor>> predictor = Predictor::Make({.processes = 2});
//   absl::StatusOr<report::Report> report = (*predictor)->Predict(spec);
//
// The processes run the `twofold` program (processes.h), so the caller may have threads.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "core/proto/report.pb.h"
#include "core/proto/spec.pb.h"

namespace twofold {

namespace prediction {
class Processes;
}

class Predictor {
 public:
  struct Options {
    int processes = 0;                // 0: as many as this machine has cores
    std::string program = "twofold";  // looked up in PATH if it has no slash
  };
  // Starts one process, to see that the program is there and predicts; the others start when they are needed.
  static absl::StatusOr<std::unique_ptr<Predictor>> Make(Options options);
  ~Predictor();  // ends the processes; nobody may be waiting for a prediction
  Predictor(const Predictor&) = delete;
  Predictor& operator=(const Predictor&) = delete;

  // What `twofold run` would report. `spec` is resolved (experiments/program/spec/spec.h: LoadSpec, ResolveSpec) and
  // on fabric simulated; relative paths in it are those of this process's directory. A job that is predicted to fail
  // has a report, whose outcome says so. An error, beginning with `file`, means that the spec is wrong, or that the
  // process ended. Threads may call it at the same time; it blocks until a process is free and has answered.
  absl::StatusOr<report::Report> Predict(const spec::Spec& spec, const std::string& file = "spec");

  // All of them, on all processes. `done(i, report)` is called as each is ready, never by two threads at a time.
  using Done = std::function<void(size_t i, absl::StatusOr<report::Report> report)>;
  void PredictAll(std::span<const spec::Spec> specs, const std::string& file, const Done& done);

  int processes() const;

 private:
  explicit Predictor(std::unique_ptr<prediction::Processes> processes);
  const std::unique_ptr<prediction::Processes> processes_;
};

}  // namespace twofold
