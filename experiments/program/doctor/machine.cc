#include "experiments/program/doctor/machine.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_format.h"
#include "core/base/format.h"
#include "core/base/machine.h"
#include "core/base/strings.h"

namespace twofold::doctor {
namespace {

constexpr int64_t kMiB = 1 << 20, kGiB = 1 << 30;

std::string LimitText(uint64_t limit, bool bytes) {
  if (limit == RLIM_INFINITY) return "no limit";
  return bytes ? BytesText(static_cast<double>(limit)) : CountText(static_cast<int64_t>(limit));
}

rlimit LimitOf(__rlimit_resource resource) {
  rlimit limit{.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
  getrlimit(resource, &limit);
  return limit;
}

std::string FirstLine(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Bytes that processes can still get, by the kernel's estimate; -1 if it is not known.
int64_t AvailableMemory() {
  std::ifstream info("/proc/meminfo");
  for (std::string name, unit; info >> name;) {
    int64_t kib = 0;
    info >> kib;
    std::getline(info, unit);
    if (name == "MemAvailable:") return kib * 1024;
  }
  return -1;
}

int64_t FreeIn(const char* path) {
  struct statvfs system {};
  return statvfs(path, &system) == 0 ? static_cast<int64_t>(system.f_bavail * system.f_frsize) : -1;
}

int Cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  return sched_getaffinity(0, sizeof(allowed), &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
}

double Load() {
  double load = 0;
  return getloadavg(&load, 1) == 1 ? load : 0;
}

double ClockStep() {
  using Clock = std::chrono::steady_clock;
  double least = 1;
  for (int i = 0; i < 1000; ++i) {
    const auto begin = Clock::now();
    auto end = Clock::now();
    while (end == begin) end = Clock::now();
    least = std::min(least, std::chrono::duration<double>(end - begin).count());
  }
  return least;
}

class Socket {
 public:
  Socket() : fd_(socket(AF_INET, SOCK_STREAM, 0)) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

// Listens at a port that the system chooses, and connects to it.
Finding AboutLoopback() {
  Finding found{.name = "loopback"};
  const Socket server, client;
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(at);
  auto* const address = reinterpret_cast<sockaddr*>(&at);
  const bool fine = bind(server.fd(), address, size) == 0 && listen(server.fd(), 1) == 0 &&
                    getsockname(server.fd(), address, &size) == 0 && connect(client.fd(), address, size) == 0;
  if (fine) {
    found.text = StrCat("127.0.0.1 answers; the system gives free ports from ",
                        FirstLine("/proc/sys/net/ipv4/ip_local_port_range"));
    std::replace(found.text.begin(), found.text.end(), '\t', '-');
    return found;
  }
  found.kind = Kind::kFault;
  found.text = StrCat("127.0.0.1 does not answer: ", std::strerror(errno));
  found.remedy = "bring the interface lo up (ip link set lo up); ranks that are processes meet there";
  return found;
}

Finding AboutFolder(const std::string& name, const std::string& path, const std::string& use) {
  Finding found{.name = name};
  const int64_t free = FreeIn(path.c_str());
  if (access(path.c_str(), W_OK) != 0) {
    found.kind = Kind::kFault;
    found.text = StrCat(path, " cannot be written: ", std::strerror(errno));
    found.remedy = use;
  } else if (free >= 0 && free < kGiB) {
    found.kind = Kind::kNote;
    found.text = StrCat(path, " has ", BytesText(free), " left");
    found.remedy = "remove files, if runs write traces or checkpoints";
  } else {
    found.text = StrCat(path, " can be written, ", BytesText(free), " left");
  }
  return found;
}

Finding AboutThreads() {
  const ThreadLimit most = MostThreads();
  Finding found{.name = "threads", .text = StrCat("at most ", CountText(most.threads), " (", most.what, ")")};
  if (most.threads >= 1000) return found;
  found.kind = Kind::kNote;
  found.remedy = "raise this limit before you run hundreds of ranks in_memory";
  return found;
}

bool AnyIn(const char* folder) {
  std::error_code none;
  return std::filesystem::directory_iterator(folder, none) != std::filesystem::directory_iterator();
}

}  // namespace

Finding AboutCores(const std::string& processor, int cores, double load) {
  Finding found{.name = "processor"};
  found.text = absl::StrFormat("%s, %s, load %.1f", processor, Counted(cores, "core"), load);
  if (load <= 0.5 * cores) return found;
  found.kind = Kind::kNote;
  found.remedy = "measure when less runs here: other work delays ranks, and calibration widens intervals by it";
  return found;
}

Finding AboutMemory(int64_t all, int64_t available) {
  Finding found{.name = "memory", .text = BytesText(all)};
  if (available < 0) return found;
  StrAppend(&found.text, ", of which ", BytesText(std::min(all, available)), " can be had");
  if (available >= all / 10) return found;
  found.kind = Kind::kNote;
  found.remedy = "end other programs, or measured runs may be killed for want of memory";
  return found;
}

Finding AboutOpenFiles(uint64_t soft, uint64_t hard) {
  Finding found{.name = "open files"};
  found.text = StrCat("limit ", LimitText(soft, false),
                      soft < hard ? StrCat(", raised when needed to ", LimitText(hard, false)) : "");
  if (hard >= 1024) return found;
  found.kind = Kind::kFault;
  found.remedy = "ulimit -Hn 4096: rank 0 has a connection to every rank, and MPI several";
  return found;
}

Finding AboutLockedMemory(uint64_t soft, bool network_or_gpu) {
  Finding found{.name = "locked memory", .text = StrCat("limit ", LimitText(soft, true))};
  if (soft == RLIM_INFINITY || soft >= 64 * kMiB || !network_or_gpu) return found;
  found.kind = Kind::kNote;
  found.remedy = "ulimit -l unlimited: InfiniBand and GPUs register memory that must be locked";
  return found;
}

Finding AboutSharedMemory(bool there, int64_t free) {
  Finding found{.name = "shared memory"};
  found.text = there ? StrCat("/dev/shm has ", BytesText(free), " left") : "there is no /dev/shm";
  if (there && free >= 256 * kMiB) return found;
  found.kind = Kind::kNote;
  found.remedy = "give a container more of it (docker run --shm-size=1g): MPI and NCCL send through it within a host";
  return found;
}

Finding AboutClock(double step_s, const std::string& source) {
  Finding found{.name = "clock"};
  found.text = StrCat("monotonic, steps of ", SecondsText(step_s), source.empty() ? "" : StrCat(", by ", source));
  if (step_s < 2e-6) return found;
  found.kind = Kind::kNote;
  found.remedy = "kernels of a few microseconds are measured badly; let the kernel use a finer source, such as tsc";
  return found;
}

Findings AboutMachine() {
  const rlimit files = LimitOf(RLIMIT_NOFILE), locked = LimitOf(RLIMIT_MEMLOCK), space = LimitOf(RLIMIT_AS);
  std::error_code none;
  const bool shared = std::filesystem::exists("/dev/shm", none);
  Findings found = {
      AboutCores(ProcessorName(), Cores(), Load()),
      AboutMemory(MachineMemory().value(), AvailableMemory()),
      AboutOpenFiles(files.rlim_cur, files.rlim_max),
      AboutThreads(),
      AboutLockedMemory(locked.rlim_cur, AnyIn("/sys/class/infiniband") || access("/dev/nvidiactl", F_OK) == 0),
      AboutSharedMemory(shared, FreeIn("/dev/shm")),
      AboutClock(ClockStep(), FirstLine("/sys/devices/system/clocksource/clocksource0/current_clocksource")),
      AboutLoopback(),
      AboutFolder("current folder", std::filesystem::current_path(none).string(),
                  "go to a folder that you may write to, or give each run --out=DIR"),
      AboutFolder("temporary folder", std::filesystem::temp_directory_path(none).string(),
                  "set TMPDIR to a folder that you may write to; MPI keeps files there")};
  if (space.rlim_cur != RLIM_INFINITY)
    found.push_back({Kind::kNote, "address space", StrCat("limit ", LimitText(space.rlim_cur, true)),
                     "ulimit -v unlimited: simulated ranks and CUDA reserve more addresses than they use"});
  return found;
}

}  // namespace twofold::doctor
