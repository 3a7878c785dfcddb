#include "strategies/elastic/last_checkpoint.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "core/base/errors.h"
#include "core/base/strings.h"
#include "strategies/elastic/messages.h"

namespace twofold::elastic {

int64_t LoadLast(RankContext& ctx, const std::string& folder, int64_t sequence_before,
                 const std::function<std::string(const std::optional<checkpoint::Opened>& found)>& load) {
  const bool finds = ctx.everyone().rank() == 0;
  std::vector<checkpoint::Found> all;
  if (finds) all = checkpoint::List(folder);
  std::erase_if(all, [&](const checkpoint::Found& found) { return found.sequence <= sequence_before; });
  std::vector<std::string> unreadable;  // on rank 0: why
  const auto pass_over = [&](const std::string& why) {
    unreadable.push_back(why);
    ctx.AddNote(StrCat("checkpoint passed over: ", why));
  };
  for (size_t next = 0;;) {
    std::optional<checkpoint::Opened> found;
    while (!found && next < all.size()) {
      absl::StatusOr<checkpoint::Opened> opened = checkpoint::Open(all[next++].path, ctx.disk());
      opened.ok() ? void(found = *std::move(opened)) : pass_over(std::string(opened.status().message()));
    }
    const Start told = ExchangeAll(ctx, Start{.steps = found ? found->manifest.metadata.step : 0,
                                              .from = found ? std::string() : absl::StrJoin(unreadable, "; ")})[0];
    if (told.steps == 0 && told.from.empty()) return 0;
    if (told.steps == 0) {
      throw RunOver(ctx.member(), StrCat("train.elastic: the run would go on from its last checkpoint, but can read "
                                         "none: ",
                                         told.from));
    }
    const std::vector<Start> ends = ExchangeAll(ctx, Start{.from = load(found)});
    const auto bad = std::find_if(ends.begin(), ends.end(), [](const Start& end) { return !end.from.empty(); });
    if (bad == ends.end()) return told.steps;
    if (finds) pass_over(bad->from);
  }
}

}  // namespace twofold::elastic
