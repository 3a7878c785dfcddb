#include <filesystem>
#include <utility>

#include "core/base/status.h"
#include "experiments/program/page/page.h"

namespace twofold::page {

namespace fs = std::filesystem;

absl::StatusOr<std::string> PageOfFolders(const std::vector<std::string>& folders,
                                          std::vector<pictures::RunData>* runs) {
  std::vector<pictures::RunData> read;
  for (const std::string& folder : folders) {
    const bool plan = fs::exists(fs::path(folder) / "plan.json"), sweep = fs::exists(fs::path(folder) / "sweep.json");
    if (plan || sweep) {
      if (folders.size() == 1) return plan ? PlanPage(folder) : SweepPage(folder);
      return InvalidArgument(folder, " is a ", plan ? "plan" : "sweep",
                             ", which has a page of its own; give its folder alone");
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
