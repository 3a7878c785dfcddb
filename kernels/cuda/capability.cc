#include "kernels/cuda/capability.h"

#include <charconv>

#include "kernels/cuda/error.h"

namespace twofold::cuda {
namespace {

bool OneRunsOn(std::string_view architecture, Capability gpu) {
  if (architecture == "native" || architecture == "all" || architecture == "all-major") return true;
  int number = 0;
  const char* const end = architecture.data() + architecture.size();
  const auto [rest, error] = std::from_chars(architecture.data(), end, number);
  if (error != std::errc()) return false;
  const Capability built{number / 10, number % 10};
  const std::string_view suffix(rest, static_cast<size_t>(end - rest));
  if (suffix.starts_with('a')) return gpu.major == built.major && gpu.minor == built.minor;
  const bool newer_minor = gpu.major == built.major && gpu.minor >= built.minor;
  if (suffix.starts_with('f') || suffix == "-real") return newer_minor;
  return (suffix.empty() || suffix == "-virtual") && (newer_minor || gpu.major > built.major);
}

}  // namespace

bool RunsOn(std::string_view architectures, Capability gpu) {
  while (!architectures.empty()) {
    const size_t length = architectures.find_first_of(",;");
    if (OneRunsOn(architectures.substr(0, length), gpu)) return true;
    architectures.remove_prefix(length == architectures.npos ? architectures.size() : length + 1);
  }
  return false;
}

Capability CapabilityOf(int gpu) {
  Capability capability;
  Check(cudaDeviceGetAttribute(&capability.major, cudaDevAttrComputeCapabilityMajor, gpu));
  Check(cudaDeviceGetAttribute(&capability.minor, cudaDevAttrComputeCapabilityMinor, gpu));
  return capability;
}

Capability CapabilityOfCurrentGpu() {
  int gpu = 0;
  Check(cudaGetDevice(&gpu));
  return CapabilityOf(gpu);
}

}  // namespace twofold::cuda
