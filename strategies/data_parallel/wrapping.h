// Selects the modules of a model that become units of a sharded layout. The parameters of a unit are gathered, freed
// and reduced together.
//
// Many small units need little memory at a time but many small messages; few large units need the reverse. A
// transformer block is the usual choice (Zhao et al. 2023, "PyTorch FSDP", VLDB 16(12), section 4.2).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/nn/module.h"

namespace twofold {

// Returns whether `module` becomes a unit. `parameters`: the number of its parameters that no unit below it holds.
// Called from the leaves up, children in order. Not called for the root, which is always a unit.
using WrapPolicy = std::function<bool(const nn::Module& module, int64_t parameters)>;

WrapPolicy WrapByKind(std::string kind);                // modules whose Module::kind is `kind`
WrapPolicy WrapByParameterCount(int64_t least);         // modules with at least `least` parameters
WrapPolicy WrapByPath(std::vector<std::string> paths);  // modules whose Module::path is in `paths`
WrapPolicy WrapEither(WrapPolicy a, WrapPolicy b);  // modules that one of them selects; an empty policy selects none

// Replaces every module below `root` that `policy` selects and that can be a unit with the result of `wrap`. A module
// can be a unit if it holds parameters and shares none with a module outside it (tied embeddings), since the two would
// need them at different times. A module that already has a wrapper (recomputation) becomes a unit together with it.
// Parameter names do not change; `root` is finalized.
void WrapUnits(nn::Module& root, const WrapPolicy& policy,
               absl::FunctionRef<std::unique_ptr<nn::Module>(std::unique_ptr<nn::Module>)> wrap);

}  // namespace twofold
