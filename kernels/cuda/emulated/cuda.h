// What kernels/cuda/hopper.h takes from the CUDA driver's header is, emulated, done by these functions.
#pragma once

#include "kernels/cuda/emulated/hopper.h"
