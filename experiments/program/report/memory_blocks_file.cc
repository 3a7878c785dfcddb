#include "experiments/program/report/memory_blocks_file.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "core/base/status.h"
#include "experiments/program/report/files.h"
#include "experiments/program/report/gzip.h"
#include "experiments/program/report/json.h"

namespace twofold {
namespace {

using Column = google::protobuf::RepeatedField<int64_t>;
using Json = nlohmann::ordered_json;

absl::Status CheckLengths(std::initializer_list<const Column*> columns, std::string_view what) {
  for (const Column* column : columns) {
    if (column->size() != (*columns.begin())->size())
      return InvalidArgument("the columns of ", what, " have ", (*columns.begin())->size(), " and ", column->size(),
                             " values");
  }
  return absl::OkStatus();
}

absl::Status CheckLives(const Column& first, const Column& end, const Column& bytes, int64_t samples,
                        std::string_view what) {
  for (int i = 0; i < first.size(); ++i) {
    if (first[i] < 0 || first[i] >= end[i] || end[i] > samples)
      return InvalidArgument(what, " ", i, ": is at samples ", first[i], " to ", end[i], " of ", samples);
    if (bytes[i] < 0) return InvalidArgument(what, " ", i, ": has ", bytes[i], " bytes");
  }
  return absl::OkStatus();
}

absl::StatusOr<report::MemoryBlocksFile> ParseBlocks(const std::string& zipped) {
  constexpr int64_t kMost = int64_t{1} << 32;
  const absl::StatusOr<std::string> text = Gunzip(zipped, kMost);
  if (!text.ok()) return text.status();
  const Json json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return InvalidArgument("is not JSON");
  report::MemoryBlocksFile file;
  if (absl::Status s = FromJson(json, &file); !s.ok()) return s;
  return file;
}

}  // namespace

std::string MemoryBlocksFileBytes(const RankRecords& records) {
  report::MemoryBlocksFile file;
  for (const auto& [rank, record] : records.traced()) {
    if (!record.has_blocks()) continue;
    report::MemoryBlocks& blocks = *file.add_ranks();
    blocks = record.blocks();
    blocks.set_rank(rank);
  }
  return file.ranks().empty() ? "" : Gzip(ToJson(file).dump(-1, ' ', false, Json::error_handler_t::replace));
}

absl::StatusOr<std::map<int, report::MemoryBlocks>> ReadMemoryBlocks(const std::string& path) {
  std::map<int, report::MemoryBlocks> by_rank;
  std::error_code none;
  if (!std::filesystem::exists(path, none)) return by_rank;
  const absl::StatusOr<std::string> bytes = ReadFile(path);
  if (!bytes.ok()) return bytes.status();
  absl::StatusOr<report::MemoryBlocksFile> file = ParseBlocks(*bytes);
  if (!file.ok()) return InvalidArgument(path, ": ", file.status().message());
  for (report::MemoryBlocks& blocks : *file->mutable_ranks()) {
    const auto rank = static_cast<int>(blocks.rank());
    by_rank[rank] = std::move(blocks);
  }
  return by_rank;
}

absl::Status CheckMemoryBlocks(const report::MemoryBlocks& b, int64_t samples) {
  absl::Status status =
      CheckLengths({&b.owner(), &b.bytes(), &b.segment(), &b.offset(), &b.first(), &b.end()}, "blocks");
  status.Update(
      CheckLengths({&b.segment_number(), &b.segment_bytes(), &b.segment_first(), &b.segment_end()}, "segments"));
  if (!status.ok()) return status;
  status = CheckLives(b.first(), b.end(), b.bytes(), samples, "block");
  status.Update(CheckLives(b.segment_first(), b.segment_end(), b.segment_bytes(), samples, "segment"));
  const std::set<int64_t> segments(b.segment_number().begin(), b.segment_number().end());
  for (int i = 0; status.ok() && i < b.owner_size(); ++i) {
    if (b.owner(i) < 0 || b.owner(i) >= b.owners_size())
      status = InvalidArgument("block ", i, ": its owner ", b.owner(i), " is not in the list");
    else if (!segments.contains(b.segment(i)))
      status = InvalidArgument("block ", i, ": its segment ", b.segment(i), " is not in the list");
  }
  return status;
}

}  // namespace twofold
