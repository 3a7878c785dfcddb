#include "experiments/program/run_sweep.h"

#include <utility>
#include <vector>

#include "backends/launch/launch.h"
#include "core/base/format.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "experiments/program/cli/note_text.h"
#include "experiments/program/report/files.h"
#include "experiments/program/report/json.h"
#include "experiments/program/sweep/table.h"
#include "experiments/program/sweep_runs.h"

namespace twofold {
namespace {

absl::Status CheckSweep(const SweepAsked& asked) {
  if (LaunchedAs().size > 1)
    return InvalidArgument("sweep: this process was itself started by a launcher (", LaunchedAs().launcher,
                           "); call sweep once, and it starts the ranks");
  if (asked.processes < 0) return InvalidArgument("--processes must be 0 or more (got ", asked.processes, ")");
  return absl::OkStatus();
}

absl::Status WriteResults(const sweep::Results& results, const std::string& text, const std::string& out) {
  std::vector<NamedText> files = {{"sweep.txt", text},
                                  {"sweep.csv", sweep::ResultsCsv(results)},
                                  {"sweep.json", JsonText(sweep::ResultsJson(results))}};
  if (std::string picture = sweep::ResultsPicture(results); !picture.empty())
    files.push_back({"sweep.svg", std::move(picture)});
  return WriteFiles(out, files);
}

}  // namespace

absl::StatusOr<SweepTold> RunSweep(SweepAsked asked) {
  if (const absl::Status fine = CheckSweep(asked); !fine.ok()) return fine;
  asked.points.repeats = asked.repeats.value_or(kSweepRepeats);
  const absl::StatusOr<std::string> text =
      asked.text ? absl::StatusOr<std::string>(*asked.text) : ReadFile(asked.points.file);
  if (!text.ok()) return text.status();
  const absl::StatusOr<sweep::Points> points = sweep::PointsOf(*text, asked.points);
  if (!points.ok()) return points.status();
  if (asked.repeats && !points->measure)
    return InvalidArgument("--repeats=", *asked.repeats,
                           ": is for measurements; a prediction is always the "
                           "same. Add --measured, or leave this out");
  SweepTold told{.out = asked.out.empty() ? StrCat("runs/", points->name, "-sweep") : asked.out};
  if (const absl::Status made = MakeOutFolder("--out", told.out); !made.ok()) return made;
  told.results = sweep::ResultsOf(*points);
  const absl::StatusOr<SweepRan> ran = RunPoints(*points,
                                                 {.file = asked.points.file,
                                                  .out = told.out,
                                                  .repeats = asked.points.repeats,
                                                  .processes = asked.processes,
                                                  .again = asked.again},
                                                 told.results);
  if (!ran.ok()) return absl::InternalError(ran.status().message());
  sweep::Scale(told.results);
  told.interrupted = ran->interrupted;
  told.text = sweep::ResultsText(told.results);
  told.notes = sweep::NotesOf(told.results);
  if (ran->kept > 0)
    told.notes.push_back(StrCat(Counted(ran->kept, "run"), " of ", ran->kept + ran->runs, " of an earlier sweep in ",
                                told.out, "; --again runs everything"));
  told.written = WriteResults(told.results, told.text + NotesText(told.notes, "full"), told.out);
  return told;
}

}  // namespace twofold
