// A pool of processes of the `twofold` program, each of which answers one request after another (worker.h).
//
// The processes are started, not forked, so the caller may have threads. Each makes its predictions one after another,
// of long ones each in a child of its own. A job that ends its process ends no other, and memory does not grow with the
// number of requests. Links neither the simulator nor the strategies.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/proto/prediction.pb.h"

namespace twofold::prediction {

class Processes {
 public:
  struct Options {
    int processes = 0;                // 0: as many as this machine has cores
    std::string program = "twofold";  // looked up in PATH if it has no slash
    // In process groups of their own, so that Ctrl-C at a terminal reaches the caller alone, which then decides.
    bool own_groups = false;
  };
  // Starts one process, to see that the program is there and answers; the others start when they are needed.
  static absl::StatusOr<std::unique_ptr<Processes>> Make(Options options);
  ~Processes();  // ends the processes; nobody may be waiting for an answer
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  // Called again and again while an answer takes long. True: it is not wanted any more.
  using Cancelled = std::function<bool()>;

  // Blocks until a process is free and has answered. Threads may call it at the same time. `name` begins the error if
  // the process ends, which is INTERNAL. CANCELLED: `cancelled` said so, and what was at work has been ended. Refused
  // in a child that was forked after Make: the processes are its parent's.
  absl::StatusOr<Answer> Ask(const Request& request, const std::string& name, const Cancelled& cancelled = nullptr);
  // Likewise, by a process that is started for this request, with this process's environment, and ends with it: for
  // what keeps all cores busy by itself, or measures.
  absl::StatusOr<Answer> AskAnother(const Request& request, const std::string& name,
                                    const Cancelled& cancelled = nullptr);

  int processes() const { return options_.processes; }

 private:
  struct Process;
  explicit Processes(Options options);
  absl::StatusOr<std::unique_ptr<Process>> Start(bool for_predictions) const;
  absl::StatusOr<std::unique_ptr<Process>> Take();
  void GiveBack(std::unique_ptr<Process> process);  // null: it has ended

  const Options options_;
  const pid_t owner_;
  std::mutex mutex_;
  std::condition_variable free_;
  std::vector<std::unique_ptr<Process>> idle_;
  int started_ = 0;  // processes that exist
};

}  // namespace twofold::prediction
