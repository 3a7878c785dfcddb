#include "kernels/cpu/levels.h"

#include <array>
#include <cstdlib>
#include <string>

#include "absl/strings/str_join.h"
#include "core/base/check.h"
#include "core/base/strings.h"
#include "kernels/cpu/built_levels.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/panel_product.h"
#include "kernels/cpu/reduce.h"
#include "kernels/cpu/run_operation.h"
#include "kernels/cpu/small_product.h"

// TWOFOLD_BUILT_LEVELS(F) is F(v2) F(v3) F(v4), or F(native).
extern "C" {
#define TWOFOLD_DECLARE(level) extern const twofold::cpu::KernelTable twofold_kernels_##level;
TWOFOLD_BUILT_LEVELS(TWOFOLD_DECLARE)
#undef TWOFOLD_DECLARE
}

namespace twofold::cpu {
namespace {

struct Level {
  std::string_view name;
  const KernelTable* kernels;
};
#define TWOFOLD_LEVEL(level) Level{#level, &twofold_kernels_##level},
constexpr std::array kLevels = {TWOFOLD_BUILT_LEVELS(TWOFOLD_LEVEL)};
#undef TWOFOLD_LEVEL

// GCC's and Clang's runtime asks the processor, and whether the operating system saves its registers.
bool Usable(std::string_view level) {
#if defined(__x86_64__)
  if (level == "v2") return __builtin_cpu_supports("x86-64-v2");
  if (level == "v3") return __builtin_cpu_supports("x86-64-v3");
  if (level == "v4") return __builtin_cpu_supports("x86-64-v4");
#endif
  return level == "native";
}

absl::StatusOr<const Level*> Choose(const char* wanted) {
  const std::vector<std::string> usable = UsableLevels();
  if (usable.empty()) return absl::FailedPreconditionError("this processor has not even level v2 of x86-64 (SSE4.2)");
  const std::string name = wanted == nullptr || *wanted == '\0' ? usable.back() : wanted;
  for (const Level& level : kLevels) {
    if (level.name != name) continue;
    if (Usable(name)) return &level;
    return absl::InvalidArgumentError(StrCat("TWOFOLD_CPU_LEVEL: this processor has no level ", name,
                                             " of x86-64; it has ", absl::StrJoin(usable, ", ")));
  }
  return absl::InvalidArgumentError(
      StrCat("TWOFOLD_CPU_LEVEL: unknown level \"", name, "\"; this build has ", absl::StrJoin(BuiltLevels(), ", ")));
}

const absl::StatusOr<const Level*>& Chosen() {
  static const absl::StatusOr<const Level*> chosen = Choose(std::getenv("TWOFOLD_CPU_LEVEL"));
  return chosen;
}

const KernelTable& Kernels() {
  static const KernelTable* const kernels = [] {
    const absl::StatusOr<const Level*>& chosen = Chosen();
    TWOFOLD_CHECK(chosen.ok(), chosen.status().message());
    return (*chosen)->kernels;
  }();
  return *kernels;
}

absl::StatusOr<std::string_view> NameOf(const absl::StatusOr<const Level*>& level) {
  if (!level.ok()) return level.status();
  return (*level)->name;
}

}  // namespace

std::vector<std::string> BuiltLevels() {
  std::vector<std::string> names;
  for (const Level& level : kLevels) names.emplace_back(level.name);
  return names;
}

std::vector<std::string> UsableLevels() {
  std::vector<std::string> names;
  for (const Level& level : kLevels) {
    if (Usable(level.name)) names.emplace_back(level.name);
  }
  return names;
}

absl::StatusOr<std::string_view> ChooseLevel(const char* wanted) { return NameOf(Choose(wanted)); }
absl::StatusOr<std::string_view> LevelInUse() { return NameOf(Chosen()); }

// ---- What the rest of the program calls. Kernels call each other within their level. ----

void RunOperation(const ops::AnyOp& op, ThreadPool& pool, std::span<std::byte> scratch) {
  Kernels().run(op, pool, scratch);
}
void Convert(const void* in, DType from, void* out, DType to, int64_t n) { Kernels().convert(in, from, out, to, n); }
void ReduceSlices(std::span<const void* const> inputs, std::span<void* const> outputs, DType dtype, ReduceOp op,
                  int64_t first, int64_t count) {
  Kernels().reduce_slices(inputs, outputs, dtype, op, first, count);
}
void DivideAll(void* values, DType dtype, int64_t count, int64_t by) { Kernels().divide_all(values, dtype, count, by); }
int64_t PanelScratch(int64_t m, int64_t n, int64_t k) { return Kernels().panel_scratch(m, n, k); }
void MultiplyPanels(const Product<float>& p, const float* bias, float* scratch) {
  Kernels().multiply_panels_f32(p, bias, scratch);
}
void MultiplyPanels(const Product<double>& p, const double* bias, double* scratch) {
  Kernels().multiply_panels_f64(p, bias, scratch);
}
void Multiply(const SmallProduct<float>& p) { Kernels().multiply_small_f32(p); }
void Multiply(const SmallProduct<double>& p) { Kernels().multiply_small_f64(p); }
void PackTransposed(const float* x, int64_t ld, int64_t count, int64_t k, float factor, int64_t lanes, float* panel) {
  Kernels().pack_transposed_f32(x, ld, count, k, factor, lanes, panel);
}
void PackTransposed(const double* x, int64_t ld, int64_t count, int64_t k, double factor, int64_t lanes,
                    double* panel) {
  Kernels().pack_transposed_f64(x, ld, count, k, factor, lanes, panel);
}

}  // namespace twofold::cpu
