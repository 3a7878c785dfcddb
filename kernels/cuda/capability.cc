#include "kernels/cuda/capability.h"

#include <charconv>

#include "core/base/strings.h"
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

// Words for several architectures are taken to be right.
bool HasFp8(std::string_view architecture) {
  int number = 0;
  const auto [rest, error] = std::from_chars(architecture.data(), architecture.data() + architecture.size(), number);
  return error != std::errc() || number >= 89;
}

template <class F>
bool AnyOf(std::string_view architectures, F&& holds) {
  while (!architectures.empty()) {
    const size_t length = architectures.find_first_of(",;");
    if (holds(architectures.substr(0, length))) return true;
    architectures.remove_prefix(length == architectures.npos ? architectures.size() : length + 1);
  }
  return false;
}

}  // namespace

bool RunsOn(std::string_view architectures, Capability gpu) {
  return AnyOf(architectures, [gpu](std::string_view one) { return OneRunsOn(one, gpu); });
}

std::string WhyNoHopperAttention(std::string_view architectures, Capability gpu) {
  if (gpu.major != 9 || gpu.minor != 0)
    return StrCat("the GPU has compute capability ", gpu.major, ".", gpu.minor, ", not 9.0");
  const bool built = AnyOf(architectures, [](std::string_view one) { return one.substr(0, one.find('-')) == "90a"; });
  if (built) return "";
  return StrCat("this build has kernels for ", architectures, ", not for 90a (CMAKE_CUDA_ARCHITECTURES)");
}

std::string WhyFp8IsWidened(std::string_view architectures, Capability gpu) {
  if (10 * gpu.major + gpu.minor < 89)
    return StrCat("the GPU has compute capability ", gpu.major, ".", gpu.minor, ", and FP8 begins with 8.9");
  const bool built = AnyOf(architectures, [gpu](std::string_view one) { return OneRunsOn(one, gpu) && HasFp8(one); });
  if (built) return "";
  return StrCat("this build has kernels for ", architectures, ", of which a GPU of ", gpu.major, ".", gpu.minor,
                " runs none for 8.9 or newer (CMAKE_CUDA_ARCHITECTURES)");
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
