#include <filesystem>
#include <utility>

#include "core/base/status.h"
#include "experiments/program/page/page.h"

namespace twofold::page {

namespace fs = std::filesystem;

namespace {

// What a folder is, by a file in it; each has a page for itself.
struct Alone {
  const char *file, *kind;
  absl::StatusOr<std::string> (*page)(const std::string& folder);
};
constexpr Alone kAlone[] = {{"plan.json", "plan", PlanPage},
                            {"sweep.json", "sweep", SweepPage},
                            {"replay.json", "storm", StormPage},
                            {"results.json", "study", StudyPage}};

}  // namespace

absl::StatusOr<std::string> PageOfFolders(const std::vector<std::string>& folders,
                                          std::vector<pictures::RunData>* runs) {
  std::vector<pictures::RunData> read;
  for (const std::string& folder : folders) {
    for (const auto& [file, kind, page] : kAlone) {
      if (!fs::exists(fs::path(folder) / file)) continue;
      if (folders.size() == 1) return page(folder);
      return InvalidArgument(folder, " is a ", kind, ", which has a page of its own; give its folder alone");
    }
    absl::StatusOr<pictures::RunData> run = pictures::ReadRun(folder);
    if (!run.ok()) return run.status();
    read.push_back(*std::move(run));
  }
  if (read.empty()) return InvalidArgument("no folder of a run is given");
  std::vector<const pictures::RunData*> all;
  for (const pictures::RunData& run : read) all.push_back(&run);
  std::string text = PageOf(all);
  if (runs != nullptr) *runs = std::move(read);
  return text;
}

}  // namespace twofold::page
