// A GPU's compute capability, which determines the kernels that it can run.
#pragma once

#include <string>
#include <string_view>

namespace twofold::cuda {

struct Capability {
  int major = 0, minor = 0;
  int number() const { return 10 * major + minor; }
};

// Whether a GPU can run what nvcc has compiled for `architectures`, a list as CMAKE_CUDA_ARCHITECTURES has it, or with
// commas: "80;90a". 80 runs on all GPUs from 8.0 on, because it contains code for newer ones, too, which the driver
// compiles. 80-real runs on 8.0 to 8.9. 90a runs on 9.0 alone, and 100f on 10.x (CUDA C++ Programming Guide, "Feature
// Set Compiler Targets"). CMake's words "native", "all" and "all-major" are taken to be right. False for other text.
bool RunsOn(std::string_view architectures, Capability gpu);

// Why attention's kernel for Hopper (attention_hopper.cu) cannot run; "" if it can. It needs compute capability 9.0 and
// code for sm_90a, which `architectures` must name: 90 alone lacks the instructions.
std::string WhyNoHopperAttention(std::string_view architectures, Capability gpu);

// Why products of FP8 codes are those of the codes widened to F16 (mma.h), which are exact, but no faster than F16's;
// "" if they use FP8 instructions. Those need compute capability 8.9, and code for 8.9 or newer: a GPU that runs the
// code of 80, which the list 80;90a has for 8.9, widens.
std::string WhyFp8IsWidened(std::string_view architectures, Capability gpu);

// Throws CudaError.
Capability CapabilityOf(int gpu);
Capability CapabilityOfCurrentGpu();  // of the calling thread's current GPU

}  // namespace twofold::cuda
