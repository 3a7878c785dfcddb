#include "strategies/checkpoint/assemble.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "core/base/strings.h"
#include "strategies/checkpoint/load.h"
#include "strategies/checkpoint/pieces.h"

namespace twofold::checkpoint {
namespace {

// Appends bytes to a file, in full buffers.
class Appender {
 public:
  explicit Appender(BlockWriter writer) : writer_(std::move(writer)) {}
  std::span<std::byte> room() { return buffer_.room(); }
  absl::Status Filled(size_t bytes) {
    buffer_.Filled(bytes);
    return buffer_.room().empty() ? Flush() : absl::OkStatus();
  }
  absl::StatusOr<FileSum> Finish() {
    if (absl::Status status = Flush(); !status.ok()) return status;
    return writer_.Finish();
  }

 private:
  absl::Status Flush() {
    if (buffer_.bytes().empty()) return absl::OkStatus();
    const absl::Status status = writer_.Write(buffer_);
    buffer_.Clear();
    return status;
  }
  BlockWriter writer_;
  WriteBuffer buffer_;
};

absl::Status AppendText(Appender& out, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const size_t part = std::min(out.room().size(), bytes.size());
    std::memcpy(out.room().data(), bytes.data(), part);
    if (absl::Status status = out.Filled(part); !status.ok()) return status;
    bytes = bytes.subspan(part);
  }
  return absl::OkStatus();
}

absl::Status AppendTensor(Worker& worker, Appender& out, Reader& reader, const Entry& entry) {
  const int64_t element = ElementSize(entry.dtype), numel = entry.shape.numel();
  for (int64_t at = 0; at < numel;) {
    if (worker.given_up()) return absl::CancelledError("given up");
    // Tensors in the file begin at multiples of their element size, so buffers end between elements.
    const int64_t count = std::min(numel - at, static_cast<int64_t>(out.room().size()) / element);
    const auto bytes = static_cast<size_t>(count * element);
    absl::Status status =
        reader.Read(entry.name, entry.shape, entry.dtype, Region::Run(numel, at, count), out.room().first(bytes));
    if (status.ok()) status = out.Filled(bytes);
    if (!status.ok()) return status;
    at += count;
  }
  return absl::OkStatus();
}

// Writes one file of whole tensors and adds it to `whole`.
absl::Status WriteWhole(Worker& worker, Disk& disk, const std::string& folder, const std::string& name, Reader& reader,
                        std::vector<const Entry*> entries, bool has_values, Contents& whole) {
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry* a, const Entry* b) { return ElementSize(a->dtype) > ElementSize(b->dtype); });
  std::vector<StoredTensor> stored;
  for (const Entry* e : entries) {
    stored.push_back({e->name.substr(e->name.find('.') + 1), e->dtype, e->shape});
    whole.tensors.push_back({.name = e->name,
                             .dtype = e->dtype,
                             .shape = e->shape,
                             .pieces = {{.file = static_cast<int64_t>(whole.files.size()),
                                         .tensor = stored.back().name,
                                         .where = Region::Whole(e->shape.numel())}},
                             .holds = e->holds});
  }
  const std::string header = SafetensorsHeader(stored, FileMetadata(has_values));
  auto bytes = static_cast<int64_t>(header.size());
  for (const StoredTensor& t : stored) bytes += t.bytes();
  absl::StatusOr<BlockWriter> writer = BlockWriter::Create(folder, name, bytes, disk);
  if (!writer.ok()) return writer.status();
  Appender out(*std::move(writer));
  if (absl::Status status = AppendText(out, std::as_bytes(std::span(header))); !status.ok()) return status;
  for (const Entry* e : entries) {
    if (absl::Status status = AppendTensor(worker, out, reader, *e); !status.ok()) return status;
  }
  absl::StatusOr<FileSum> sum = out.Finish();
  if (!sum.ok()) return sum.status();
  whole.files.push_back(*std::move(sum));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Contents> Assemble(Worker& worker, Disk& disk, const std::string& folder, const Contents& shards,
                                  bool has_values) {
  Contents whole;
  {
    const Manifest manifest{{}, shards};
    Reader reader(folder, manifest, disk);
    std::vector<const Entry*> model, optimizer, reducer, islands;
    for (const Entry& e : manifest.contents.tensors) {
      const auto is = [&e](const char* kind) { return absl::StartsWith(e.name, kind); };
      std::vector<const Entry*>& file = is(kOptimizer)              ? optimizer
                                        : is(kReducer)              ? reducer
                                        : is(kIsland) || is(kOuter) ? islands
                                                                    : model;
      file.push_back(&e);
    }
    const std::pair<const char*, std::vector<const Entry*>> files[] = {{kModelFile, std::move(model)},
                                                                       {kOptimizerFile, std::move(optimizer)},
                                                                       {kReducerFile, std::move(reducer)},
                                                                       {kIslandsFile, std::move(islands)}};
    for (const auto& [name, entries] : files) {
      if (entries.empty() && name != kModelFile) continue;
      const absl::Status status = WriteWhole(worker, disk, folder, name, reader, entries, has_values, whole);
      if (!status.ok()) return status;
    }
  }
  for (const FileSum& file : shards.files) {
    std::error_code error;
    std::filesystem::remove(StrCat(folder, "/", file.name), error);  // a file that could not be removed does no harm
  }
  return whole;
}

}  // namespace twofold::checkpoint
