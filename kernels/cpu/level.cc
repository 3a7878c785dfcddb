// The table of one level. CMakeLists.txt compiles this file and the kernels once per level, links them into one object,
// and makes every name in it local but this table's: TWOFOLD_KERNEL_TABLE, twofold_kernels_v3 for instance.
#include <variant>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/panel_product.h"
#include "kernels/cpu/reduce.h"
#include "kernels/cpu/small_product.h"

namespace twofold::cpu {
namespace {

void RunHere(const ops::AnyOp& op, ThreadPool& pool, std::span<std::byte> scratch) {
  Context context{pool, Scratch(scratch)};
  std::visit([&context](const auto& o) { Compute(o, context); }, op);
}

}  // namespace
}  // namespace twofold::cpu

extern "C" {
extern const twofold::cpu::KernelTable TWOFOLD_KERNEL_TABLE;
constinit const twofold::cpu::KernelTable TWOFOLD_KERNEL_TABLE = {
    .run = &twofold::cpu::RunHere,
    .convert = &twofold::cpu::Convert,
    .reduce_slices = &twofold::cpu::ReduceSlices,
    .divide_all = &twofold::cpu::DivideAll,
    .panel_scratch = &twofold::cpu::PanelScratch,
    .multiply_panels_f32 = &twofold::cpu::MultiplyPanels,
    .multiply_panels_f64 = &twofold::cpu::MultiplyPanels,
    .multiply_small_f32 = &twofold::cpu::Multiply,
    .multiply_small_f64 = &twofold::cpu::Multiply,
    .pack_transposed_f32 = &twofold::cpu::PackTransposed,
    .pack_transposed_f64 = &twofold::cpu::PackTransposed,
};
}
