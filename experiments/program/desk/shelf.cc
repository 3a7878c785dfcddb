#include "experiments/program/desk/shelf.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/strings.h"
#include "core/proto/report.pb.h"
#include "experiments/program/report/files.h"
#include "experiments/program/report/write_report.h"

namespace twofold::desk {
namespace {

namespace fs = std::filesystem;

void ReadRunItem(const fs::path& folder, Item& item) {
  const absl::StatusOr<report::Report> report = ReadReport(folder.string());
  if (!report.ok()) {
    item.error = std::string(report.status().message());
    return;
  }
  item.name = report->name();
  item.title = StrCat(report->predicted() ? "predicted" : "measured", " (", report->fabric(), ")");
  item.outcome = report::Outcome_Name(report->outcome());
  item.ranks = report->world_size(), item.seconds = report->median_step_seconds();
  for (const report::Rank& rank : report->ranks()) item.peak_bytes = std::max(item.peak_bytes, rank.peak_bytes());
}

std::string NameIn(const fs::path& file) {
  const absl::StatusOr<std::string> text = ReadFile(file.string());
  if (!text.ok()) return "";
  const auto json = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  return json.is_object() && json.contains("name") && json["name"].is_string() ? json["name"].get<std::string>() : "";
}

}  // namespace

void Shelf::Look(const std::string& in, std::vector<Item>& items) {
  constexpr std::pair<const char*, Item::Kind> kFiles[] = {{"report.json", Item::kRun},
                                                           {"plan.json", Item::kPlan},
                                                           {"sweep.json", Item::kSweep},
                                                           {"replay.json", Item::kStorm}};
  for (const auto& [name, kind] : kFiles) {
    const fs::path file = fs::path(in) / name;
    struct stat of {};
    if (stat(file.c_str(), &of) != 0 || !S_ISREG(of.st_mode)) continue;
    const int64_t size = of.st_size, changed = int64_t{of.st_mtim.tv_sec} * 1'000'000'000 + of.st_mtim.tv_nsec;
    const auto number =
        static_cast<int64_t>(of.st_ino);  // another one of a file that was replaced within a clock's tick
    Known& known = known_[file.string()];
    if (known.seen == 0 || known.size != size || known.changed != changed || known.number != number) {
      std::error_code none;
      known = {size,
               changed,
               number,
               {.kind = kind, .path = fs::relative(in, folder_, none).string(), .written = of.st_mtim.tv_sec}};
      if (kind == Item::kRun) ReadRunItem(in, known.item);
      if (kind == Item::kSweep || kind == Item::kStorm) known.item.name = NameIn(file);
      ++files_read_;
    }
    known.seen = looks_;
    items.push_back(known.item);
  }
}

std::vector<Item> Shelf::Items() {
  const std::lock_guard lock(mutex_);
  ++looks_;
  std::vector<Item> items;
  Look(folder_, items);
  std::error_code error;
  fs::recursive_directory_iterator at(folder_, fs::directory_options::skip_permission_denied, error), end;
  for (; !error && at != end; at.increment(error)) {
    std::error_code none;
    if (at->is_directory(none) && !at->is_symlink(none)) Look(at->path().string(), items);
  }
  std::erase_if(known_, [this](const auto& known) { return known.second.seen != looks_; });  // removed since
  std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.written > b.written; });
  return items;
}

}  // namespace twofold::desk
