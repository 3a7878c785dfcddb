#include "strategies/checkpoint/load.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "strategies/checkpoint/agree.h"
#include "strategies/checkpoint/load_reducers.h"
#include "strategies/checkpoint/pieces.h"

namespace twofold::checkpoint {
namespace {

absl::Status Refuse(const std::string& path, std::string_view name, const auto&... text) {
  return InvalidArgument(path, ": tensor \"", name, "\": ", text...);
}

std::string TypeText(DType dtype, const Shape& shape) { return StrCat(DTypeName(dtype), shape.ToString()); }

// ---- From one element type to another ----
template <class T>
double Widened(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  if constexpr (std::is_same_v<T, double>)
    return value;
  else
    return static_cast<double>(static_cast<float>(value));
}
template <class T>
void Narrowed(double value, std::byte* to) {
  const T narrow = [value] {
    if constexpr (std::is_same_v<T, double>)
      return value;
    else
      return T(static_cast<float>(value));  // the conversion to float is exact if the source was narrower than F64
  }();
  std::memcpy(to, &narrow, sizeof(narrow));
}
double At(DType dtype, const std::byte* from) {
  switch (dtype) {
    case DType::kF64: return Widened<double>(from);
    case DType::kBF16: return Widened<BF16>(from);
    case DType::kF16: return Widened<F16>(from);
    default: return Widened<float>(from);
  }
}
void Put(DType dtype, double value, std::byte* to) {
  switch (dtype) {
    case DType::kF64: return Narrowed<double>(value, to);
    case DType::kBF16: return Narrowed<BF16>(value, to);
    case DType::kF16: return Narrowed<F16>(value, to);
    default: return Narrowed<float>(value, to);
  }
}

absl::StatusOr<SafetensorsHead> HeadOf(CheckedFile& file) {
  std::array<std::byte, kSafetensorsPrefix> prefix;
  if (file.bytes() < kSafetensorsPrefix) return InvalidArgument(file.path(), ": too short for a header");
  if (absl::Status status = file.Read(0, prefix); !status.ok()) return status;
  const absl::StatusOr<int64_t> length = SafetensorsHeaderLength(file.path(), prefix, file.bytes());
  if (!length.ok()) return length.status();
  std::string text(static_cast<size_t>(*length), '\0');
  if (absl::Status status = file.Read(kSafetensorsPrefix, std::as_writable_bytes(std::span(text))); !status.ok())
    return status;
  return ParseSafetensors(file.path(), text, file.bytes());
}

// What is wrong with the state that is not in tensors; "" if nothing is.
std::string WrongScalar(const std::map<std::string, double>& scalars) {
  constexpr double kMost = int64_t{1} << 53;
  for (const auto& [name, value] : scalars) {
    if (name == "loss_scale.scale" && !(value > 0 && std::isfinite(value)))
      return StrCat("scalars.", name, " must be greater than 0 (got ", value, ")");
    if (name == "validation.best" && std::isnan(value))
      return StrCat("scalars.", name, " must be a number (got ", value, ")");
    if (name != "loss_scale.good_steps" && name != "loss_scale.skipped" && name != "validation.in_vain") continue;
    if (!(value >= 0 && value <= kMost && value == std::floor(value)))
      return StrCat("scalars.", name, " must be a whole number of steps (got ", value, ")");
  }
  for (const char* beside : {"loss_scale.good_steps", "loss_scale.skipped"}) {
    if (scalars.contains("loss_scale.scale") && !scalars.contains(beside))
      return StrCat("scalars has loss_scale.scale but no ", beside);
  }
  return "";
}

}  // namespace

// ---- Reader ----

Reader::Reader(std::string folder, const Manifest& manifest, Disk& disk)
    : folder_(std::move(folder)), manifest_(manifest), disk_(disk) {
  for (const Entry& entry : manifest_.contents.tensors) entries_[entry.name] = &entry;
}

const Entry* Reader::Find(std::string_view name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : found->second;
}

absl::StatusOr<Reader::File*> Reader::Open(int64_t index) {
  std::unique_ptr<File>& file = files_[index];
  if (file != nullptr && file->bytes.has_value()) return file.get();
  if (open_.size() == kMostOpen) open_.front()->bytes.reset(), open_.pop_front();
  absl::StatusOr<CheckedFile> bytes =
      CheckedFile::Open(folder_, manifest_.contents.files[static_cast<size_t>(index)], disk_);
  if (!bytes.ok()) return bytes.status();
  if (file == nullptr) {
    absl::StatusOr<SafetensorsHead> head = HeadOf(*bytes);
    if (!head.ok()) return head.status();
    file = std::make_unique<File>(File{*std::move(head), std::nullopt});
  }
  file->bytes.emplace(*std::move(bytes));
  open_.push_back(file.get());
  return file.get();
}

absl::StatusOr<int64_t> Reader::Locate(const Entry& entry, const Piece& piece, File& file) const {
  const auto found = file.head.tensors.find(piece.tensor);
  if (found == file.head.tensors.end()) {
    return Refuse(file.bytes->path(), piece.tensor, "is missing; the manifest says it holds elements of \"", entry.name,
                  "\"");
  }
  const StoredTensor& stored = found->second;
  if (stored.dtype != entry.dtype || stored.shape.numel() != piece.where.count) {
    return Refuse(file.bytes->path(), piece.tensor, "is ", TypeText(stored.dtype, stored.shape),
                  "; the manifest says it holds ", piece.where.count, " ", DTypeName(entry.dtype), " elements of \"",
                  entry.name, "\"");
  }
  return stored.begin;
}

// Reads elements from `first` on of the band that consists of `pieces`, which are in order.
absl::Status Reader::ReadPieces(const Entry& entry, std::span<const Piece> pieces, int64_t first,
                                std::span<std::byte> out) {
  const int64_t element = ElementSize(entry.dtype);
  const auto after = [](int64_t at, const Piece& p) { return at < p.where.first + p.where.count; };
  for (auto piece = std::upper_bound(pieces.begin(), pieces.end(), first, after); !out.empty(); ++piece) {
    absl::StatusOr<File*> file = Open(piece->file);
    if (!file.ok()) return file.status();
    const absl::StatusOr<int64_t> begin = Locate(entry, *piece, **file);
    if (!begin.ok()) return begin.status();
    const Region& where = piece->where;
    const int64_t count = std::min(where.first + where.count - first, static_cast<int64_t>(out.size()) / element);
    const auto bytes = static_cast<size_t>(count * element);
    if (absl::Status status = (*file)->bytes->Read(*begin + (first - where.first) * element, out.first(bytes));
        !status.ok())
      return status;
    out = out.subspan(bytes);
    first += count;
  }
  return absl::OkStatus();
}

// Goes through the stored bands one by one, so that files are read from front to back. For each contiguous run of the
// requested elements, it reads the columns that the stored band holds.
absl::Status Reader::ReadStored(const Entry& entry, const Region& where, std::span<std::byte> out) {
  const auto element = static_cast<size_t>(ElementSize(entry.dtype));
  const std::span<const Piece> all = entry.pieces;
  absl::Status status;
  for (size_t begin = 0, next; begin < all.size() && status.ok(); begin = next) {
    const Region& stored = all[begin].where;
    for (next = begin + 1; next < all.size() && all[next].where.column == stored.column;) ++next;
    const std::span<const Piece> pieces = all.subspan(begin, next - begin);
    where.ForRuns([&](int64_t i, int64_t index, int64_t n) {
      stored.ForOverlap(index, n, [&](int64_t at, int64_t place, int64_t count) {
        const std::span<std::byte> part =
            out.subspan(static_cast<size_t>(i + at) * element, static_cast<size_t>(count) * element);
        if (status.ok()) status = ReadPieces(entry, pieces, place, part);
      });
    });
  }
  return status;
}

absl::Status Reader::Read(std::string_view name, const Shape& shape, DType dtype, const Region& where,
                          std::span<std::byte> out) {
  const Entry* entry = Find(name);
  if (entry == nullptr) return Refuse(folder_, name, "is not in this checkpoint");
  if (entry->shape != shape)
    return Refuse(folder_, name, "is ", TypeText(entry->dtype, entry->shape), "; this run has ",
                  TypeText(dtype, shape));
  const int64_t count = where.count;
  TWOFOLD_CHECK(where.first >= 0 && count >= 0 && where.first + count <= where.Band(shape.numel()).count,
                "elements of the tensor");
  TWOFOLD_CHECK_EQ(static_cast<int64_t>(out.size()), count * ElementSize(dtype));
  if (entry->dtype == dtype) return ReadStored(*entry, where, out);
  if (!IsFloat(entry->dtype) || !IsFloat(dtype)) {
    return Refuse(folder_, name, "is ", TypeText(entry->dtype, shape), "; this run has ", TypeText(dtype, shape),
                  ", to which it cannot be converted");
  }
  constexpr int64_t kPart = 1 << 14;  // elements
  const int64_t from = ElementSize(entry->dtype), to = ElementSize(dtype);
  std::vector<std::byte> stored(static_cast<size_t>(std::min(count, kPart) * from));
  for (int64_t at = 0; at < count; at += kPart) {
    const int64_t n = std::min(kPart, count - at);
    if (absl::Status status =
            ReadStored(*entry, where.Slice(at, n), std::span(stored).first(static_cast<size_t>(n * from)));
        !status.ok())
      return status;
    for (int64_t i = 0; i < n; ++i)
      Put(dtype, At(entry->dtype, &stored[static_cast<size_t>(i * from)]), &out[static_cast<size_t>((at + i) * to)]);
  }
  return absl::OkStatus();
}

// ---- Whether it fits ----

absl::Status CheckFits(const std::string& path, const Manifest& manifest, const ResumingRun& run) {
  if (manifest.metadata.step >= run.steps) {
    return InvalidArgument(path, ": was saved after step ", manifest.metadata.step, ", so train.steps = ", run.steps,
                           " leaves nothing to do; use more steps or an earlier checkpoint");
  }
  if (const bool has = manifest.metadata.has_values; !run.reads_none && has != run.metadata.has_values) {
    return InvalidArgument(path,
                           has ? ": has values, but this run, with device: EMULATED, computes none; "
                               : ": has no values, because device: EMULATED computed none; ",
                           "use a checkpoint of a run ", has ? "with device: EMULATED" : "that computes",
                           ", or leave train.resume out");
  }
  if (const std::string wrong = WrongScalar(manifest.metadata.scalars); !wrong.empty()) {
    return InvalidArgument(path, "/", kManifestFile, ": ", wrong);
  }
  const Reader reader(path, manifest);
  const std::unique_ptr<nn::Module> model = MakeModel(*run.model, run.parameter);
  std::set<std::string, std::less<>> known;
  const auto check = [&](const std::string& name, const Shape& shape, std::string_view whose) -> absl::Status {
    known.insert(name);
    const Entry* entry = reader.Find(name);
    if (entry == nullptr) return Refuse(path, name, "is not in this checkpoint; ", whose, " has one");
    if (entry->shape == shape) return absl::OkStatus();
    return Refuse(path, name, "is ", entry->shape.ToString(), "; ", whose, " has ", shape.ToString());
  };
  for (const nn::Parameter* b : model->Buffers()) {
    if (absl::Status status = check(kBuffer + b->name(), b->shape(), "the model of this run"); !status.ok())
      return status;
  }
  for (const nn::Parameter* p : model->Parameters()) {
    if (absl::Status status = check(kModel + p->name(), p->shape(), "the model of this run"); !status.ok())
      return status;
  }
  const std::unique_ptr<optim::Optimizer> kept = run.make_optimizer();
  const std::string optimizer = StrCat("train.optimizer ", run.metadata.optimizer, " of this run");
  for (const nn::Parameter* p : model->Parameters()) {
    known.insert(StrCat(kOptimizer, kMaster, ".", p->name()));
    for (const optim::StateShape& state : kept->StatesOf(*p)) {
      if (absl::Status status = check(StrCat(kOptimizer, state.name, ".", p->name()), state.whole, optimizer);
          !status.ok()) {
        return InvalidArgument(std::string(status.message()), "; it was saved with ", manifest.metadata.optimizer);
      }
    }
  }
  for (const Entry& entry : manifest.contents.tensors) {
    const auto is = [&entry](const char* kind) { return absl::StartsWith(entry.name, kind); };
    if (known.contains(entry.name) || is(kReducer) || is(kOuter) || is(kIsland)) continue;
    const bool state = absl::StartsWith(entry.name, kOptimizer);
    return Refuse(path, entry.name, "is in this checkpoint",
                  state ? StrCat(", which was saved with ", manifest.metadata.optimizer) : "", "; ",
                  state ? optimizer : "the model of this run", " has no such tensor");
  }
  return absl::OkStatus();
}

std::vector<std::string> Differences(const Manifest& manifest, const ResumingRun& run) {
  std::vector<std::string> notes;
  const Metadata &was = manifest.metadata, &is = run.metadata;
  if (was.seed != is.seed) {
    notes.push_back(StrCat("train.seed was ", was.seed, " when the checkpoint was saved and is ", is.seed,
                           ": the order of the samples and the dropout masks differ"));
  }
  if (was.global_batch != is.global_batch) {
    notes.push_back(
        StrCat("train.global_batch was ", was.global_batch, " when the checkpoint was saved and is ", is.global_batch,
               ": training continues in the data where the same number of steps of the new size would end"));
  }
  for (const Entry& entry : manifest.contents.tensors) {
    if (!absl::StartsWith(entry.name, kModel) || entry.dtype == run.parameter) continue;
    notes.push_back(StrCat("the checkpoint has parameters in ", DTypeName(entry.dtype), ", this run has them in ",
                           DTypeName(run.parameter)));
    break;
  }
  return notes;
}

// ---- Into a run ----
namespace {

// The name of the stored tensor from which a piece of this run's state is loaded. Parameters and masters are loaded
// from the islands' common values if there are any; pieces of an island have names of their own. Else master copies are
// loaded from parameters if no masters were saved, and parameters that are wider than the saved ones from the saved
// master copies.
std::string SourceOf(const Reader& reader, const LocalPiece& held, bool from_common) {
  const std::string masters = StrCat(kOptimizer, kMaster, ".");
  const bool master = absl::StartsWith(held.name, masters);
  if (from_common && (master || absl::StartsWith(held.name, kModel))) {
    const size_t before = master ? masters.size() : std::string_view(kModel).size();
    std::string common = StrCat(kOuter, "parameter.", held.name.substr(before));
    if (reader.Find(common) != nullptr) return common;
  }
  if (master && reader.Find(held.name) == nullptr) return kModel + held.name.substr(masters.size());
  if (!absl::StartsWith(held.name, kModel)) return held.name;
  const Entry* stored = reader.Find(held.name);
  const std::string other = masters + held.name.substr(std::string_view(kModel).size());
  const bool wider = stored != nullptr && ElementSize(stored->dtype) < ElementSize(held.data.dtype());
  return wider && reader.Find(other) != nullptr ? other : held.name;
}

absl::Status Fill(Device& device, Reader& reader, const LocalPiece& held, bool from_common) {
  constexpr int64_t kPart = int64_t{4} << 20;  // bytes per upload
  const std::string source = SourceOf(reader, held, from_common);
  const int64_t most = kPart / ElementSize(held.data.dtype());
  absl::Status status;
  for (int64_t at = 0; at < held.data.numel() && status.ok(); at += most) {
    const int64_t count = std::min(most, held.data.numel() - at);
    Tensor part = held.data.Slice(at, count);
    device.WriteBytes(part, [&](std::span<std::byte> out) {
      status = reader.Read(source, held.shape, held.data.dtype(), held.where.Slice(at, count), out);
    });
  }
  device.compute().Synchronize();
  return status;
}

absl::Status FillAll(Device& device, Reader& reader, std::span<const LocalPiece> pieces, bool from_common = false) {
  for (const LocalPiece& piece : pieces) {
    if (absl::Status status = Fill(device, reader, piece, from_common); !status.ok()) return status;
  }
  return absl::OkStatus();
}

bool AllFound(const Reader& reader, std::span<const LocalPiece> pieces) {
  return std::all_of(pieces.begin(), pieces.end(), [&](const LocalPiece& piece) {
    const Entry* entry = reader.Find(piece.name);
    return entry != nullptr && entry->shape == piece.shape;
  });
}

// What this rank's outer steps keep. Nullopt if the checkpoint lacks it on any rank: it was saved with other islands or
// another local_update. What each rank has for itself is left out if it is of another layout.
std::optional<std::vector<LocalPiece>> OuterStates(RankContext& rank, const Reader& reader, const Manifest& manifest,
                                                   LocalUpdate* local_update) {
  const Metadata& saved = manifest.metadata;
  const auto note = [&](std::string text) {
    if (rank.rank() == 0) rank.AddNote(std::move(text));
  };
  const auto count = saved.scalars.find(kIslandsScalar);
  if (count == saved.scalars.end()) {
    note("the checkpoint has no state of outer steps: all islands start from its parameters");
    return std::nullopt;
  }
  std::vector<FragmentState> states;
  if (local_update != nullptr) states = local_update->Restore(saved.step);
  std::vector<LocalPiece> outer = LocalOuterStates(states), own = OwnOuterStates(states, rank.rank());
  if (!OnAllRanks(rank, local_update != nullptr && count->second == local_update->islands().size() &&
                            AllFound(reader, outer))) {
    const std::vector<Entry>& all = manifest.contents.tensors;
    const bool common = std::any_of(all.begin(), all.end(), [](const Entry& entry) {
      return absl::StartsWith(entry.name, StrCat(kOuter, "parameter."));
    });
    note(StrCat("the checkpoint has other islands or another train.local_update than this run: training goes on from ",
                common ? "the common parameters of its last outer step" : "the parameters of its first island",
                " and its first island's optimizer state; all else of islands and outer steps was dropped"));
    return std::nullopt;
  }
  if (OnAllRanks(rank, saved.world_size == rank.world_size() && AllFound(reader, own))) {
    outer.insert(outer.end(), own.begin(), own.end());
    return outer;
  }
  note(
      "outer gradients that were on their way, or left out by quantize, were dropped: the checkpoint has them for "
      "other "
      "ranks or options than this run's");
  local_update->Forget();
  return outer;
}

}  // namespace

absl::StatusOr<Bytes> Load(RankContext& rank, const Opened& opened, ParameterLayout& layout,
                           optim::Optimizer& optimizer, LocalUpdate* local_update) {
  Reader reader(opened.path, opened.manifest, rank.disk());
  const Metadata& saved = opened.manifest.metadata;
  std::vector<LocalPiece> held = LocalParameters(layout);
  for (LocalPiece& state : LocalStates(layout, optimizer)) held.push_back(std::move(state));
  const bool islands_saved = saved.scalars.contains(kIslandsScalar);
  std::optional<std::vector<LocalPiece>> outer;
  if (local_update != nullptr || islands_saved) {
    outer = OuterStates(rank, reader, opened.manifest, local_update);
    if (outer) NameOfIsland(held, local_update->islands().rank());
  }
  const bool from_common = !outer && islands_saved;
  if (outer) held.insert(held.end(), outer->begin(), outer->end());
  for (LocalPiece& buffer : LocalBuffers(layout)) held.push_back(std::move(buffer));
  const Bytes bytes = BytesOf(held);
  absl::Status status = FillAll(rank.device(), reader, held, from_common);
  rank.WaitUntil(rank.clock().Now() + rank.ReadTime(bytes));
  if (!outer && local_update != nullptr) local_update->Restart();
  const absl::Status reducers = LoadReducers(rank, reader, opened.manifest, layout);
  if (status.ok()) status = reducers;
  const bool all = OnAllRanks(rank, status.ok());
  if (!status.ok()) return absl::Status(status.code(), StrCat(std::string(status.message()), WhatIsHere(rank, opened)));
  if (!all) return absl::CancelledError("another rank cannot read its part of the checkpoint");
  optimizer.set_updates(opened.manifest.metadata.updates);
  layout.PublishUpdate();
  return bytes;
}

Bytes LoadNothing(RankContext& rank, ParameterLayout& layout, const optim::Optimizer& optimizer) {
  const Bytes bytes =
      BytesOf(LocalParameters(layout)) + BytesOf(LocalStates(layout, optimizer)) + BytesOf(LocalBuffers(layout));
  rank.WaitUntil(rank.clock().Now() + rank.ReadTime(bytes));
  OnAllRanks(rank, true);
  return bytes;
}

}  // namespace twofold::checkpoint
