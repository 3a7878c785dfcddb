// From what the user wrote to a whole, checked spec.
//
// A spec is resolved in this order: file, --fabric, model preset or hf_config, --set, defaults; then it is validated as a
// whole; what depends on the size of the data follows when that is known. The result has every field that matters filled
// in, so that written out (SpecToText) it repeats the
// run, whatever later versions choose as defaults. Every error names the file (or the flag), the field's
// path, the value and what would be right; several problems make several lines.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/proto/spec.pb.h"

namespace twofold {

// The whole way. `fabric`: as --fabric, "" for what the file says. `sets`: each "path=value" as --set takes
// it.
absl::StatusOr<spec::Spec> LoadSpec(const std::string& path, std::string_view fabric = "",
                                    absl::Span<const std::string> sets = {});
// Likewise from text; `file` is the name that errors and the default of `name` are made from.
absl::StatusOr<spec::Spec> ResolveSpec(const std::string& text, const std::string& file,
                                       std::string_view fabric = "", absl::Span<const std::string> sets = {});

// What is wrong with a spec, "file: path: ...", with the --set that wrote `path`, something in it or the block around it in the
// file's place. For what is found after the spec is resolved; LoadSpec and ResolveSpec do it themselves.
absl::Status BlameSets(const absl::Status& status, const std::string& file, absl::Span<const std::string> sets);

// ---- The steps of it ----
// Text to message; errors as ParseText's (core/proto/parse_text.h).
absl::StatusOr<spec::Spec> ParseSpec(const std::string& text, const std::string& file);

// Another fabric with its defaults; timeout_s stays, and so does everything when it is the fabric already.
absl::Status ApplyFabric(spec::Spec& spec, std::string_view name);

// One "path=value": a dotted path of field names, members of a oneof included (train.optimizer.adamw.lr=1e-3
// also chooses adamw). Repeated fields take a list with commas (model.mlp.hidden=64,64) and replace what was
// there; blocks take "{ ... }" as a spec file writes them. model.preset, model.hf_config and
// model replace the whole model, before anything that is set in it.
absl::Status ApplySet(spec::Spec& spec, std::string_view assignment);

// Replaces model.preset's absent sizes by the preset's; explicit ones win.
absl::Status ExpandPreset(spec::Spec& spec, const std::string& file);

// Replaces model.hf_config, a path, by the model that the file describes; see hf/hf_config.h.
absl::Status ExpandHfConfig(spec::Spec& spec, const std::string& file);

void FillDefaults(spec::Spec& spec, const std::string& file);

// What depends on how many samples there are, which is known once they have been read: the steps that train.epochs make
// (the resolved spec has these in their place), what is held out for validation and how often it is done. Validates again.
struct DataSizes {
  int64_t data = 0, validation = 0;  // samples of `data` and of train.validation.data
};
absl::Status ResolveLength(spec::Spec& spec, const std::string& file, const DataSizes& sizes);

// Checks a spec that has its defaults. Data files must exist; that the cluster does is checked where it is
// looked up.
absl::Status Validate(const spec::Spec& spec, const std::string& file);

// ---- What a spec says ----
bool WritesCheckpoints(const spec::Spec& spec);     // it asks for some, and there are data to write
std::string FabricName(const spec::Spec& spec);     // "in_memory", "simulated", ...
int64_t WorldSize(const spec::Spec& spec);          // ranks: pp * dp * cp * tp
int64_t AccumulationSteps(const spec::Spec& spec);  // micro-batches per rank and step
std::string SpecToText(const spec::Spec& spec);     // as .textproto; ParseSpec of it gives the same spec

}  // namespace twofold
