// Processes forked from this one that do one task at a time, each with what this one knew when they were made.
//
// Tasks and answers are bytes. A process that ends with a task unanswered is an error of that task.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace twofold::plan {

class Pool {
 public:
  // Called in a process of the pool.
  using Work = std::function<std::string(const std::string& task)>;
  // Fork copies only the calling thread: others of this process must hold no locks that `work` needs.
  static absl::StatusOr<std::unique_ptr<Pool>> Make(int processes, const Work& work);
  ~Pool();  // ends the processes, and what they do
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int size() const { return static_cast<int>(processes_.size()); }
  bool HasIdle() const;
  // To a process that is idle, or to process `which`, which must be idle. `id`: comes back with the answer.
  absl::Status Give(int64_t id, const std::string& task, std::optional<int> which = std::nullopt);
  struct Answer {
    int64_t id;
    std::string bytes;
  };
  // The next answer. Waits at most `seconds`; nullopt: none has come. Some task must have been given.
  absl::StatusOr<std::optional<Answer>> Next(double seconds);

 private:
  struct Process;
  Pool() = default;
  std::vector<std::unique_ptr<Process>> processes_;
};

}  // namespace twofold::plan
