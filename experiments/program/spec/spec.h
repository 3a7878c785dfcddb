// From the user's input to a complete, validated spec.
//
// A spec is resolved in this order: file, --fabric, model preset or hf_config, --set, defaults. Then it is validated as
// a whole. Values that depend on the size of the data follow once that is known. The result has every relevant field
// filled in, so that its text (SpecToText) repeats the run even if later versions change their defaults. Every error
// names the file (or the flag), the field's path, the value and what would be right, one line per problem.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/proto/spec.pb.h"
#include "core/proto/world_size.h"  // IWYU pragma: export
#include "experiments/program/spec/problems/problems.h"

namespace twofold {

// Does all steps. `fabric`: as --fabric, "" for the file's choice. `sets`: each "path=value" or "@FILE" (set_files.h),
// as
// --set takes it. The file may be JSON (json_text.h).
absl::StatusOr<spec::Spec> LoadSpec(const std::string& path, std::string_view fabric = "",
                                    absl::Span<const std::string> sets = {});
// Likewise from text; errors begin with `file`, and the default of `name` is made from it.
absl::StatusOr<spec::Spec> ResolveSpec(const std::string& text, const std::string& file, std::string_view fabric = "",
                                       absl::Span<const std::string> sets = {});

// What the user gave, with the model's sizes and the framework's defaults: the first steps of ResolveSpec. Other
// defaults are not filled in, and nothing is validated: a plan still has to choose (experiments/program/plan).
absl::StatusOr<spec::Spec> GivenSpec(const std::string& text, const std::string& file, std::string_view fabric = "",
                                     absl::Span<const std::string> sets = {});

// For problems found after the spec is resolved: "file: path: ...". If a --set wrote `path`, a part of it or a block
// around it, that --set replaces the file's name. LoadSpec and ResolveSpec do this themselves.
absl::Status BlameSets(const absl::Status& status, const std::string& file, absl::Span<const std::string> sets);

// ---- The single steps ----
// The content of a spec's file, read to at most one byte more than the longest spec.
absl::StatusOr<std::string> ReadSpecText(const std::string& path);

// Text to message; errors as in ParseText (core/proto/parse_text.h).
absl::StatusOr<spec::Spec> ParseSpec(const std::string& text, const std::string& file);

// Switches to another fabric with its defaults; timeout_s stays. Does nothing if the spec already has that fabric.
absl::Status ApplyFabric(spec::Spec& spec, std::string_view name);

// One "path=value": a dotted path of field names, members of a oneof included (train.optimizer.adamw.lr=1e-3 also
// chooses adamw). Repeated fields take a list with commas (model.mlp.hidden=64,64) and replace the old list; blocks
// take "{ ... }" as in a spec file. model.preset, model.hf_config and model replace the whole model, and are applied
// before any field inside it.
absl::Status ApplySet(spec::Spec& spec, std::string_view assignment);

// Fills model.preset's absent sizes from the preset; explicit ones win.
absl::Status ExpandPreset(spec::Spec& spec, const std::string& file);

// Replaces model.hf_config, a path, by the model in that file; see hf/hf_config.h.
absl::Status ExpandHfConfig(spec::Spec& spec, const std::string& file);

// Gives fields that the spec leaves out the defaults of its framework, whose file is looked for beside the spec's.
absl::Status ExpandFramework(spec::Spec& spec, const std::string& file);

// Whether weights stay in memory and as they are between a step's first product and its update, as
// train.precision.fp8.keep_weights needs it. For specs without defaults, too.
bool WeightsStay(const spec::Spec& spec);

// Replaces model.moe.routing.counts.file by the rows in that file. Call it after FillDefaults.
absl::Status ExpandRoutingFile(spec::Spec& spec, const std::string& file);

void FillDefaults(spec::Spec& spec, const std::string& file);

// Resolves what depends on the number of samples, which is known once they have been read: the number of steps of
// train.epochs (the resolved spec has steps instead), the samples held out for validation and how often it runs.
// Validates again.
struct DataSizes {
  int64_t data = 0, validation = 0;  // samples of `data` and of train.validation.data
};
absl::Status ResolveLength(spec::Spec& spec, const std::string& file, const DataSizes& sizes);

// Checks a spec that has its defaults. Data files must exist. The cluster's existence is checked where it is looked up.
absl::Status Validate(const spec::Spec& spec, const std::string& file);
// The ranges that Validate holds this spec's numbers against. Some depend on other fields.
BoundsByPath BoundsOf(const spec::Spec& spec);

// ---- Queries ----
bool WritesCheckpoints(const spec::Spec& spec);     // checkpoints are requested, and there are data to write
int64_t AccumulationSteps(const spec::Spec& spec);  // micro-batches per rank and step
std::string SpecToText(const spec::Spec& spec);     // as .textproto; ParseSpec of it gives the same spec
std::string SpecFileText(spec::Spec spec);          // likewise, with schema_version
inline constexpr int64_t kSpecSchemaVersion = 1;    // of spec.proto (docs/spec.md, Versions)

}  // namespace twofold
