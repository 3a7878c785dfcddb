#include "strategies/checkpoint/agree.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "core/base/check.h"
#include "core/base/machine.h"
#include "core/base/strings.h"
#include "strategies/checkpoint/pieces.h"

namespace twofold::checkpoint {
namespace {

// Broadcasts rank 0's `bytes` to all ranks, in parts, so that the device memory used does not depend on their number.
std::string FromRank0(RankContext& rank, std::string bytes) {
  constexpr int64_t kPart = 1 << 14;
  Device& device = rank.device();
  Tensor part = device.NewTensor(Shape{kPart}, DType::kU8, Category::kOther);
  const auto tell = [&](std::span<std::byte> what) {
    Tensor told = part.Slice(0, static_cast<int64_t>(what.size()));
    device.WriteBytes(told, [what](std::span<std::byte> out) { std::memcpy(out.data(), what.data(), what.size()); });
    rank.world().Broadcast(told, 0).WaitOn(device.compute());
    device.ReadBytes(told, what);
  };
  uint64_t size = bytes.size();
  tell(std::as_writable_bytes(std::span(&size, 1)));
  bytes.resize(size);
  for (std::span<std::byte> rest = std::as_writable_bytes(std::span(bytes)); !rest.empty();) {
    const size_t now = std::min(rest.size(), static_cast<size_t>(kPart));
    tell(rest.first(now));
    rest = rest.subspan(now);
  }
  return bytes;
}

// The normalized path without a trailing slash.
std::filesystem::path Plain(const std::string& path) {
  const std::filesystem::path plain = std::filesystem::path(path).lexically_normal();
  return plain.has_filename() ? plain : plain.parent_path();
}

std::string SumOf(const std::string& text) {
  return absl::StrFormat("%016x", Checksum(std::as_bytes(std::span(text))));
}
std::string WhoIs(const RankContext& rank) { return StrCat("rank ", rank.rank(), " on ", HostName()); }

Opened OpenHere(RankContext& rank, const std::string& path, const ResumingRun& run) {
  absl::StatusOr<Opened> opened = Open(path, rank.disk());
  const absl::Status fits = opened.ok() ? CheckFits(opened->path, opened->manifest, run) : opened.status();
  if (!fits.ok()) throw CannotResume(rank, std::string(fits.message()));
  return *std::move(opened);
}

// Parses what rank 0 has sent: the checkpoint's name, its origin (rank 0's description), and its manifest.
Opened FromTold(RankContext& rank, const std::string& resume, const std::string& told) {
  const std::vector<std::string> parts = absl::StrSplit(told, absl::MaxSplits('\0', 2));
  TWOFOLD_CHECK_EQ(parts.size(), 3u);
  const std::filesystem::path here = Plain(resume);
  Opened opened{.path = here.filename() == parts[0] ? here.string() : (here / parts[0]).string(),
                .manifest = {},
                .text = parts[2],
                .passed_over = {},
                .origin = parts[1]};
  absl::StatusOr<Manifest> manifest = ParseManifest(StrCat(kManifestFile, " of rank 0"), opened.text);
  if (!manifest.ok()) throw CannotResume(rank, std::string(manifest.status().message()));
  opened.manifest = *std::move(manifest);
  return opened;
}

}  // namespace

Opened Agree(RankContext& rank, const std::string& path, const ResumingRun& run, const Opened* read) {
  std::string told;
  std::optional<Opened> own;
  if (rank.device().holds() == Holds::kNothing || rank.rank() == 0) {
    own = read != nullptr ? *read : OpenHere(rank, path, run);
    const std::string origin =
        StrCat(WhoIs(rank), " resumes from ", own->path, ", whose ", kManifestFile, " has checksum ", SumOf(own->text));
    for (const std::string& part : {Plain(own->path).filename().string(), origin}) told.append(part).push_back('\0');
    told += own->text;
  }
  told = FromRank0(rank, std::move(told));
  return own ? *std::move(own) : FromTold(rank, path, told);
}

std::string WhatIsHere(const RankContext& rank, const Opened& opened) {
  if (opened.origin.empty()) return "";
  const std::string start = StrCat("; ", opened.origin, "; ");
  if (const absl::StatusOr<std::string> text = ReadManifestText(opened.path, rank.disk()); text.ok()) {
    return *text == opened.text
               ? ""
               : StrCat(start, "the ", kManifestFile, " of rank ", rank.rank(), " has checksum ", SumOf(*text));
  }
  std::error_code none;
  if (std::filesystem::exists(StrCat(opened.path, "/", kManifestFile), none)) return "";  // it is there, and unreadable
  const std::vector<Found> others = List(std::filesystem::path(opened.path).parent_path().string());
  const bool other = !others.empty() && others[0].path != opened.path;
  return StrCat(start, "rank ", rank.rank(), " finds no checkpoint there",
                other ? StrCat("; its latest checkpoint is ", others[0].path) : "");
}

RankFailure CannotResume(RankContext& rank, const std::string& why) {
  rank.CheckInterrupt();
  return RankFailure(RankFailure::Kind::kOther, rank.rank(), StrCat(WhoIs(rank), ": train.resume: ", why));
}

bool OnAllRanks(RankContext& rank, bool here) {
  const float own = here ? 1 : 0;
  float least = 1;  // stays so where tensors hold nothing
  Device& device = rank.device();
  Tensor all = device.NewTensor(Shape{1}, DType::kF32, Category::kOther);
  device.WriteBytes(all, [own](std::span<std::byte> out) { std::memcpy(out.data(), &own, sizeof(own)); });
  rank.world().AllReduce(all, ReduceOp::kMin).WaitOn(device.compute());
  device.ReadBytes(all, std::as_writable_bytes(std::span(&least, 1)));
  return least == 1;
}

}  // namespace twofold::checkpoint
