#pragma once
#include "kernels/cuda/emulated/cuda_runtime.h"
