# CUDA carries device: CUDA. TWOFOLD_CUDA says how it is built:
#   ON        by nvcc, for GPUs of compute capability 8.0 and 9.0
#   EMULATED  by the C++ compiler, against kernels/cuda/emulated/: the same kernels, streams and allocator run on this machine's
#             cores. Slow; for tests where there is no GPU, and for the sanitizers, which look at host code alone.
#   OFF       not at all
#   AUTO      ON where nvcc and cuBLASLt are found, else OFF; EMULATED under sanitizers
set(TWOFOLD_CUDA AUTO CACHE STRING "AUTO, ON, OFF or EMULATED (cmake/cuda.cmake)")
set_property(CACHE TWOFOLD_CUDA PROPERTY STRINGS AUTO ON OFF EMULATED)

set(TWOFOLD_CUDA_MODE ${TWOFOLD_CUDA})
if(TWOFOLD_CUDA STREQUAL AUTO)
  if(TWOFOLD_SANITIZE)
    set(TWOFOLD_CUDA_MODE EMULATED)
  else()
    include(CheckLanguage)
    find_package(CUDAToolkit QUIET)
    if(CUDAToolkit_FOUND AND TARGET CUDA::cublasLt AND NOT CMAKE_CUDA_COMPILER)
      if(NOT DEFINED ENV{CUDACXX} AND CUDAToolkit_NVCC_EXECUTABLE)
        set(ENV{CUDACXX} ${CUDAToolkit_NVCC_EXECUTABLE})
      endif()
      check_language(CUDA)
    endif()
    if(CMAKE_CUDA_COMPILER)
      set(TWOFOLD_CUDA_MODE ON)
    else()
      set(TWOFOLD_CUDA_MODE OFF)
    endif()
  endif()
elseif(NOT TWOFOLD_CUDA MATCHES "^(ON|OFF|EMULATED)$")
  message(FATAL_ERROR "TWOFOLD_CUDA is \"${TWOFOLD_CUDA}\": AUTO, ON, OFF or EMULATED is right")
endif()

if(TWOFOLD_CUDA_MODE STREQUAL ON)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80 90)
  endif()
  if(CCACHE)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
  endif()
  enable_language(CUDA)
  find_package(CUDAToolkit REQUIRED)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know it
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    list(APPEND CMAKE_CUDA_COMPILE_FEATURES cuda_std_20)
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_FLAGS_RELEASE "-O3")
  string(APPEND CMAKE_CUDA_FLAGS " --expt-relaxed-constexpr")  # kernels call constexpr functions of core/
  find_path(CUDNN_INCLUDE cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(CUDNN_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR} ${CUDAToolkit_LIBRARY_ROOT}/lib ${CUDAToolkit_LIBRARY_ROOT}/lib64)
  if(CUDNN_INCLUDE AND CUDNN_LIBRARY)
    set(TWOFOLD_HAVE_CUDNN ON)
  endif()
  message(STATUS "Device CUDA: yes (nvcc ${CMAKE_CUDA_COMPILER_VERSION}; cuDNN: ${CUDNN_LIBRARY})")
elseif(TWOFOLD_CUDA_MODE STREQUAL EMULATED)
  find_package(Boost 1.74 REQUIRED COMPONENTS context)  # fibers: threads of a block
  message(STATUS "Device CUDA: emulated on this machine's cores")
else()
  message(STATUS "Device CUDA: no (nvcc or cuBLASLt not found, or TWOFOLD_CUDA is OFF)")
endif()

# twofold_cuda_sources(TARGET FILE.cu ...): adds them, compiled by nvcc or, emulated, as C++.
function(twofold_cuda_sources target)
  target_sources(${target} PRIVATE ${ARGN})
  if(TWOFOLD_CUDA_MODE STREQUAL EMULATED)
    set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-xc++;-Wno-unknown-pragmas")
  endif()
endfunction()
