#include <filesystem>
#include <utility>

#include "core/base/status.h"
#include "core/base/strings.h"
#include "experiments/program/page/page.h"

namespace twofold::page {

namespace fs = std::filesystem;

namespace {

// What a folder is, by a file in it; each has a page for itself.
struct Alone {
  const char *file, *kind;
  absl::StatusOr<std::string> (*page)(const std::string& folder);
  const char* made_by;
};
constexpr Alone kAlone[] = {{"plan.json", "plan", PlanPage, "`twofold plan --out`"},
                            {"sweep.json", "sweep", SweepPage, "`twofold sweep --out`"},
                            {"replay.json", "storm", StormPage, "`twofold storm --replay --out`"},
                            {"results.json", "study", StudyPage, "a folder of experiments/studies"}};

// "or of a plan (plan.json, `twofold plan --out`), ..."
std::string KindsAlone() {
  std::string text = "or of a ";
  for (const Alone& alone : kAlone)
    StrAppend(&text,
              &alone == kAlone                 ? ""
              : &alone == std::end(kAlone) - 1 ? " or a "
                                               : ", a ",
              alone.kind, " (", alone.file, ", ", alone.made_by, ")");
  return text;
}

}  // namespace

absl::StatusOr<std::string> PageOfFolders(const std::vector<std::string>& folders,
                                          std::vector<pictures::RunData>* runs) {
  std::vector<pictures::RunData> read;
  for (const std::string& folder : folders) {
    for (const auto& [file, kind, page, made_by] : kAlone) {
      if (!fs::exists(fs::path(folder) / file)) continue;
      if (folders.size() == 1) return page(folder);
      return InvalidArgument(folder, " is a ", kind, ", which has a page of its own; give its folder alone");
    }
    if (!fs::exists(fs::path(folder) / "report.json"))
      return InvalidArgument(folder,
                             ": has nothing to draw; expected the folder of a run (report.json), as `twofold "
                             "run`, `import` or `replay` write it, ",
                             KindsAlone());
    absl::StatusOr<pictures::RunData> run = pictures::ReadRun(folder);
    if (!run.ok()) return run.status();
    read.push_back(*std::move(run));
  }
  if (read.empty()) return InvalidArgument("no folder of a run is given");
  pictures::TellApart(read);
  std::vector<const pictures::RunData*> all;
  for (const pictures::RunData& run : read) all.push_back(&run);
  std::string text = PageOf(all);
  if (runs != nullptr) *runs = std::move(read);
  return text;
}

}  // namespace twofold::page
