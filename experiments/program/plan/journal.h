// What a plan has simulated, on disk: an interrupted plan goes on from there.
//
// One line of JSON for each simulation, after a first line that identifies the question. A line that was cut off by the
// interruption is left out.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/program/plan/space.h"
#include "experiments/program/plan/worker.h"

namespace twofold::plan {

class Journal {
 public:
  // Of this question, in that file, which is made if it does not exist. FAILED_PRECONDITION if it is another
  // question's.
  static absl::StatusOr<std::unique_ptr<Journal>> Open(const std::string& path, const Question& question);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  const std::vector<Simulated>& read() const { return read_; }  // from earlier runs
  absl::Status Add(const Simulated& simulated);                 // on disk when it returns

 private:
  Journal(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}
  const std::string path_;
  std::FILE* const file_;
  std::vector<Simulated> read_;
};

}  // namespace twofold::plan
