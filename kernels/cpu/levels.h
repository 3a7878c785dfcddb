// Kernels for several kinds of x86-64 processors in one program.
//
// The kernels of this folder are compiled once per level of x86-64 (v2: SSE4.2; v3: AVX2 and FMA; v4: AVX-512; the
// x86-64 psABI, section 3.1.1), or once for the building machine ("native", with -DTWOFOLD_NATIVE=ON). A process uses
// one level: the highest that its processor has, or the one that the environment variable TWOFOLD_CPU_LEVEL names.
//
// Results. Within one level they are as if there were no other: the same on every fabric, to the bit. v3 and v4 do the
// same operations on each element in the same order. v2 has no fused multiply-add, so it rounds products before it adds
// them; its results differ from the others' by rounding. OpenBLAS, which some products use, chooses its kernels by the
// processor on its own, and may round differently on each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace twofold::cpu {

// The levels that this build has, lowest first; and those of them that this machine's processor has.
std::vector<std::string> BuiltLevels();
std::vector<std::string> UsableLevels();

// The level for a value of TWOFOLD_CPU_LEVEL (null or empty: the highest usable one). An error says which values would
// be right.
absl::StatusOr<std::string_view> ChooseLevel(const char* wanted);

// The level that this process uses, read from the environment at the first call. Programs call it at their start, to
// report an error; kernels abort the process if there is one. Any thread.
absl::StatusOr<std::string_view> LevelInUse();

}  // namespace twofold::cpu
