// Which modules of a model become units of a sharded layout: their parameters are gathered, freed and reduced together.
//
// Many small units need little memory at a time and many small messages; few large ones the reverse. A block of a
// transformer is the usual choice (Zhao et al. 2023, "PyTorch FSDP", VLDB 16(12), section 4.2).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/nn/module.h"

namespace twofold {

// Whether `module` is a unit. `parameters`: how many it has that no unit below it holds. Asked from the leaves up, children
// in order; not of the root, which is a unit in any case.
using WrapPolicy = std::function<bool(const nn::Module& module, int64_t parameters)>;

WrapPolicy WrapByKind(std::string kind);                 // every module of this kind, as Module::kind says
WrapPolicy WrapByParameterCount(int64_t least);          // every one with at least so many
WrapPolicy WrapByPath(std::vector<std::string> paths);   // these, as Module::path says

// Puts what `wrap` makes of it in the place of every module below `root` that `policy` chooses and that can be a unit: one
// that holds parameters, and shares none with a module outside it (tied embeddings), since both need them at other times.
// A module that has a wrapper already (recomputation) becomes a unit with it. Parameters' names stay as they are; `root` is
// finalized.
void WrapUnits(nn::Module& root, const WrapPolicy& policy,
               absl::FunctionRef<std::unique_ptr<nn::Module>(std::unique_ptr<nn::Module>)> wrap);

}  // namespace twofold
