#include "experiments/program/doctor/parts.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "absl/strings/str_join.h"
#include "backends/host/cuda.h"
#include "backends/registry.h"
#include "core/base/format.h"
#include "core/base/strings.h"

extern char** environ;

namespace twofold::doctor {
namespace {

struct Library {
  const char *file, *name;
};
constexpr Library kLibraries[] = {
    {"libsimgrid", "SimGrid"},      {"libmpi", "Open MPI's libmpi"}, {"libgrpc++", "gRPC"},
    {"libprotobuf", "libprotobuf"}, {"libabsl_base", "Abseil"},      {"libopenblasp-r", "OpenBLAS"},
    {"libopenblas", "OpenBLAS"},    {"libdnnl", "oneDNN"},           {"libcudart", "CUDA runtime"},
    {"libcublasLt", "cuBLASLt"},    {"libcudnn", "cuDNN"},           {"libnccl", "NCCL"}};

std::vector<std::string> LoadedFiles() {
  std::ifstream maps("/proc/self/maps");
  std::set<std::string> files;
  for (std::string line; std::getline(maps, line);)
    if (const size_t at = line.find('/'); at != std::string::npos) files.insert(line.substr(at));
  return {files.begin(), files.end()};
}

Findings AboutGpus() {
  const std::string why_not = host::WhyNoCuda();
  const bool driver = access("/dev/nvidiactl", F_OK) == 0;
  if (!why_not.empty()) {
    Finding none{Kind::kNote, "GPUs", why_not, ""};
    if (driver) none.remedy = "a driver's devices are here: build with CUDA, or mend what the text says, to use them";
    return {none};
  }
  Findings found;
  std::ifstream version("/proc/driver/nvidia/version");
  std::string line;
  if (std::getline(version, line)) found.push_back({Kind::kOk, "GPU driver", line, ""});
  for (int gpu = 0; gpu < host::GpusHere(); ++gpu) {
    const bool emulated = host::GpusAreEmulated();
    found.push_back({emulated ? Kind::kNote : Kind::kOk, StrCat("GPU ", gpu),
                     StrCat(host::DescribeGpu(gpu), emulated ? ", emulated on the host" : ""), ""});
  }
  return found;
}

}  // namespace

std::string LibraryVersions(const std::vector<std::string>& paths) {
  std::vector<std::string> versions;
  std::set<std::string> told;
  for (const Library& library : kLibraries) {
    for (const std::string& path : paths) {
      const std::string file = std::filesystem::path(path).filename(), name = library.file;
      const size_t ending = file.find(".so");
      if (ending == std::string::npos || !file.starts_with(name)) continue;
      // the version stands behind .so. or, as in libopenblasp-r0.3.21.so, before it
      std::string version = file.substr(name.size(), ending - name.size());
      if (version.empty() && file.size() > ending + 4) version = file.substr(ending + 4);
      if (version.empty() || version.find_first_not_of("0123456789.") != std::string::npos) continue;
      if (told.insert(library.name).second) versions.push_back(StrCat(library.name, " ", version));
    }
  }
  return absl::StrJoin(versions, ", ");
}

Finding AboutMpi(std::vector<std::string> words, const Variables& variables) {
  const std::string name = words[0];
  if (const Launch launch = LaunchFrom(variables); launch.launched) {
    return {Kind::kNote, name, StrCat("not tried, because ", launch.launcher, " started this process"),
            StrCat("if you use ", name, ", try it by `twofold doctor` without ", launch.launcher)};
  }
  words.push_back("true");
  const auto begin = std::chrono::steady_clock::now();
  const std::string why = WhyItFails(words, 30);
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (why.empty()) return {Kind::kOk, name, StrCat("starts a process in ", SecondsText(took)), ""};
  return {Kind::kFault, name, StrCat("`", absl::StrJoin(words, " "), "`: ", why),
          "mend this first; fabric mpi needs it, unless srun or another launcher starts the ranks"};
}

std::string WhyItFails(const std::vector<std::string>& words, double seconds) {
  const int output = memfd_create("stderr", MFD_CLOEXEC);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&files, output, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);  // so that all that it starts can be ended
  std::vector<std::string> copies = words;
  std::vector<char*> pointers;
  for (std::string& word : copies) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, pointers[0], &files, &attributes, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  int status = 0;
  bool late = false;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (failed == 0 && waitpid(child, &status, late ? 0 : WNOHANG) == 0) {
    late = std::chrono::steady_clock::now() > end;
    if (late) kill(-child, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::string said(200, '\0');
  said.resize(static_cast<size_t>(std::max<ssize_t>(0, pread(output, said.data(), said.size(), 0))));
  close(output);
  said.erase(0, said.find_first_not_of("- \n"));  // mpirun draws lines around its messages
  said = said.substr(0, said.find('\n'));
  if (failed != 0) return std::strerror(failed);
  if (late) return StrCat("has not ended after ", SecondsText(seconds));
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  const std::string how =
      WIFEXITED(status) ? StrCat("exit status ", WEXITSTATUS(status)) : StrCat("ended by signal ", WTERMSIG(status));
  return said.empty() ? how : StrCat(how, ": ", said);
}

Findings AboutParts() {
  Findings found = {{Kind::kOk, "libraries", LibraryVersions(LoadedFiles()), ""}};
  for (const Backend& backend : Backends()) {
    const std::string why_not = backend.why_not();
    found.push_back({why_not.empty() ? Kind::kOk : Kind::kNote, StrCat("fabric ", backend.name),
                     why_not.empty() ? std::string(backend.summary) : StrCat("not available: ", why_not), ""});
    if (why_not.empty() && backend.launcher != nullptr)
      found.push_back(AboutMpi(backend.launcher(1), [](const char* variable) { return std::getenv(variable); }));
  }
  for (Finding& gpu : AboutGpus()) found.push_back(std::move(gpu));
  return found;
}

}  // namespace twofold::doctor
