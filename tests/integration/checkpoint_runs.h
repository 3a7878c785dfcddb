// Runs that save checkpoints after some steps, and runs that go on from them.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "core/base/strings.h"
#include "tests/integration/run_spec.h"
#include "tests/scratch_folder.h"

namespace twofold::checkpoint_runs {

inline constexpr int kSteps = 6, kStop = 3;
inline constexpr char kGpt[] = "model { gpt { layers: 2 hidden: 16 heads: 2 vocab: 256 sequence: 8 dropout: 0.1 } }\n";
inline constexpr char kPlainGpt[] = "model { gpt { layers: 2 hidden: 16 heads: 2 vocab: 256 sequence: 8 } }\n";

inline std::string Folder(const std::string& name) { return test::ScratchFolder(name); }

struct Layout {
  const char* name;
  const char* parallel;
  int least = 1;  // ranks, and a divisor of their number
};
inline void PrintTo(const Layout& l, std::ostream* out) { *out << l.name; }
// A new layout is a row here.
inline constexpr Layout kLayouts[] = {{"NoShard", "bucket_mib: 0.002"},
                                      {"Zero1", "sharding: ZERO_1"},
                                      {"Zero2", "sharding: ZERO_2"},
                                      {"Zero3", "sharding: ZERO_3"},
                                      {"Hybrid", "sharding: HYBRID_SHARD shard_group: 2", 2},
                                      {"Offloaded", "sharding: ZERO_3 offload: OFFLOAD_ALL"}};

inline std::string Text(const std::string& model, int ranks, const Layout& layout, const std::string& train,
                        const std::string& fabric = test::kInMemory) {
  return StrCat(model, "train { steps: ", kSteps, " global_batch: 12 micro_batch: 1 seed: 3 ", train,
                " }\nparallel { dp: ", ranks, " ", layout.parallel, " }\n", fabric);
}
inline std::string Saving(const std::string& folder, const std::string& more = "") {
  return StrCat("checkpoint { path: \"", folder, "\" every_steps: ", kStop, " keep_last: 0 ", more, " }");
}
// Of the checkpoint after kStop steps.
inline std::string Resuming(const std::string& folder) {
  return StrCat("resume: \"", folder, "/000001-step-", kStop, "\"");
}

inline std::vector<double> Tail(const std::vector<double>& losses) { return {losses.begin() + kStop, losses.end()}; }

// What a checkpoint is, and how it is written.
inline constexpr char kSharded[] = "kind: SHARDED", kFull[] = "kind: FULL",
                      kAsync[] = "kind: SHARDED asynchronous: true", kFullAsync[] = "kind: FULL asynchronous: true";

}  // namespace twofold::checkpoint_runs
