#include "backends/host/processor_use.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

namespace twofold::host {
namespace {

std::optional<ThreadTimes> Parse(const std::string& schedstat) {
  std::istringstream text(schedstat);
  double ran = 0, waited = 0;  // nanoseconds
  if (!(text >> ran >> waited)) return std::nullopt;
  return ThreadTimes{ran * 1e-9, waited * 1e-9};
}

std::optional<ThreadTimes> ReadTimes(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return Parse(line);
}

double WaitedOfAllThreads(const std::string& proc) {
  double waited = 0;
  std::error_code none;  // threads may end meanwhile
  for (const auto& thread : std::filesystem::directory_iterator(proc + "/self/task", none)) {
    if (const auto times = ReadTimes(thread.path() / "schedstat")) waited += times->waited;
  }
  return waited;
}

double Tick() { return 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK)); }

// From the first line of /proc/stat, which covers all CPUs: user nice system idle iowait irq softirq steal ...
struct AllProcessors {
  double busy = 0, stolen = 0;
};
std::optional<AllProcessors> ReadAll(const std::string& proc) {
  std::ifstream file(proc + "/stat");
  std::string cpu;
  std::array<double, 8> ticks{};
  if (!(file >> cpu) || cpu != "cpu") return std::nullopt;
  for (double& t : ticks) {
    if (!(file >> t)) return std::nullopt;
  }
  const auto& [user, nice, system, idle, waiting, irq, softirq, steal] = ticks;
  return AllProcessors{(user + nice + system + irq + softirq) * Tick(), steal * Tick()};
}

// The resolution in seconds. A whole tick is charged to whatever runs when it occurs, so the difference of two readings
// may be too high by this much.
double Coarseness() { return Tick() * static_cast<double>(std::max(1u, std::thread::hardware_concurrency())); }

double ClockSeconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

}  // namespace

ThreadCounter::ThreadCounter(const std::string& proc)
    : file_(open((proc + "/thread-self/schedstat").c_str(), O_RDONLY | O_CLOEXEC)) {}

ThreadCounter::~ThreadCounter() {
  if (file_ >= 0) close(file_);
}

ThreadTimes ThreadCounter::Read() const {
  char text[128];
  const ssize_t n = file_ < 0 ? -1 : pread(file_, text, sizeof(text), 0);
  return n <= 0 ? ThreadTimes() : Parse(std::string(text, static_cast<size_t>(n))).value_or(ThreadTimes());
}

report::ProcessorUse ProcessorWatch::Read() const {
  report::ProcessorUse now;
  const auto thread = ReadTimes(proc_ + "/thread-self/schedstat");
  const auto all = ReadAll(proc_);
  if (!thread || !all) return now;
  now.set_wall(ClockSeconds(CLOCK_MONOTONIC));
  now.set_ran(thread->ran);
  now.set_waited(WaitedOfAllThreads(proc_));
  now.set_process_ran(ClockSeconds(CLOCK_PROCESS_CPUTIME_ID));
  now.set_busy(all->busy), now.set_stolen(all->stolen);
  return now;
}

report::ProcessorUse ProcessorWatch::Use() const {
  const report::ProcessorUse end = Read();
  report::ProcessorUse use;
  if (!begin_.has_wall() || !end.has_wall()) return use;
  use.set_host(HostName()), use.set_process(getpid());
  use.set_wall(end.wall() - begin_.wall());
  use.set_ran(end.ran() - begin_.ran());
  use.set_waited(std::max(0.0, end.waited() - begin_.waited()));  // some threads may have ended
  use.set_process_ran(end.process_ran() - begin_.process_ran());
  use.set_busy(std::max(0.0, end.busy() - begin_.busy() - Coarseness())),
      use.set_stolen(end.stolen() - begin_.stolen());
  return use;
}

std::string WithProcessorUse(const std::function<std::string()>& work) {
  const ProcessorWatch watch;
  std::string record = work();
  report::RankRecord more;
  *more.mutable_processors() = watch.Use();
  const bool known = more.processors().has_wall();
  // Concatenated serialized messages merge.
  return known && !record.empty() ? record + more.SerializeAsString() : record;
}

}  // namespace twofold::host
