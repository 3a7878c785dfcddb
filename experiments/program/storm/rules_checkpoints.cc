// What a run has announced as saved must be there.
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <set>
#include <vector>

#include "core/base/strings.h"
#include "core/io/checkpoint_folder.h"
#include "experiments/program/storm/rules.h"
#include "strategies/checkpoint/load.h"

namespace twofold::storm {
namespace {

// Reads every tensor as a run with one rank would, so that every block is held against its checksum.
absl::Status ReadAll(const std::string& path) {
  const absl::StatusOr<checkpoint::Opened> opened = checkpoint::Open(path);
  if (!opened.ok()) return opened.status();
  checkpoint::Reader reader(opened->path, opened->manifest);
  std::vector<std::byte> bytes;
  for (const checkpoint::Entry& tensor : opened->manifest.contents.tensors) {
    bytes.resize(static_cast<size_t>(tensor.shape.numel() * ElementSize(tensor.dtype)));
    if (tensor.holds.empty() && bytes.empty()) continue;
    const absl::Status read =
        reader.Read(tensor.name, tensor.shape, tensor.dtype, Region::Whole(tensor.shape.numel()), bytes);
    if (!read.ok()) return read;
  }
  return absl::OkStatus();
}

}  // namespace

void JudgeCheckpoints(const Course& course, Findings& findings) {
  if (!course.spec.train().has_checkpoint()) return;
  std::set<std::string> announced;  // names begin with a sequence number, so they are in order
  for (const auto& [member, record] : course.evidence.records) {
    for (const report::Checkpoint& saved : record.checkpoints()) announced.insert(saved.path());
  }
  if (announced.empty()) return;
  findings.verdict().mutable_happened()->insert({"checkpoints announced", static_cast<int64_t>(announced.size())});
  for (const std::string& path : announced) {
    std::error_code none;
    const bool is_last = path == *announced.rbegin();
    if (!std::filesystem::exists(path, none)) {
      if (is_last) findings.Add("checkpoints", StrCat(path, " was announced, is the last one, and is not there"));
      continue;  // newer ones have replaced it
    }
    if (const absl::Status read = ReadAll(path); !read.ok())
      findings.Add("checkpoints", StrCat(path, " was announced, but cannot be loaded: ", std::string(read.message())));
  }
}

}  // namespace twofold::storm
