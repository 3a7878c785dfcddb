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

int64_t WrittenAt(const fs::path& file) {
  struct stat of {};
  return stat(file.c_str(), &of) == 0 ? static_cast<int64_t>(of.st_mtime) : 0;
}

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

std::vector<Item> ItemsIn(const std::string& folder) {
  constexpr std::pair<const char*, Item::Kind> kFiles[] = {
      {"report.json", Item::kRun}, {"plan.json", Item::kPlan}, {"sweep.json", Item::kSweep}};
  std::vector<Item> items;
  std::error_code error;
  fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, error), end;
  const auto look = [&](const fs::path& in) {
    for (const auto& [file, kind] : kFiles) {
      std::error_code none;
      if (!fs::is_regular_file(in / file, none)) continue;
      Item item{.kind = kind, .path = fs::relative(in, folder, none).string(), .written = WrittenAt(in / file)};
      if (kind == Item::kRun) ReadRunItem(in, item);
      if (kind == Item::kSweep) item.name = NameIn(in / file);
      items.push_back(std::move(item));
    }
  };
  look(folder);
  for (; !error && at != end; at.increment(error)) {
    std::error_code none;
    if (at->is_directory(none) && !at->is_symlink(none)) look(at->path());
  }
  std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.written > b.written; });
  return items;
}

}  // namespace twofold::desk
