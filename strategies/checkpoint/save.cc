#include "strategies/checkpoint/save.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <utility>

#include "absl/strings/str_format.h"
#include "core/base/errors.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "strategies/checkpoint/assemble.h"

namespace twofold::checkpoint {
namespace {

std::string RankFile(int rank) { return absl::StrFormat("rank-%05d", rank); }

constexpr char kPartEnding[] = ".part.json";

// Waits for the part file of a rank and returns its contents. Part files are written under another name and renamed, so
// a file that exists is complete.
absl::StatusOr<Contents> AwaitPart(Worker& worker, Disk& disk, const std::string& folder, const std::string& name) {
  const std::string path = StrCat(folder, "/", name);
  std::error_code error;
  while (!std::filesystem::exists(path, error)) {
    if (!std::filesystem::is_directory(folder, error))
      return Unavailable(folder, ": was deleted or renamed while it was written");
    if (!worker.Sleep()) return absl::CancelledError("given up");
  }
  const absl::StatusOr<std::string> text = ReadSmallFile(path, int64_t{1} << 30, disk);
  if (!text.ok()) return text.status();
  return ParsePart(path, *text);
}

// Merges the contents of all parts, writes the manifest and publishes the checkpoint. `assemble`: first make whole
// files from the shards.
absl::Status CommitParts(Worker& worker, Disk& disk, const SaveOptions& options, const Begun& begun,
                         const std::vector<std::string>& names, bool assemble, Manifest manifest, int64_t* bytes) {
  std::vector<Contents> parts;
  for (const std::string& name : names) {
    absl::StatusOr<Contents> part = AwaitPart(worker, disk, begun.partial, name);
    if (!part.ok()) return part.status();
    parts.push_back(*std::move(part));
  }
  absl::StatusOr<Contents> all = Merge(begun.partial, std::move(parts));
  if (!all.ok()) return all.status();
  if (assemble) all = Assemble(worker, disk, begun.partial, *all, manifest.metadata.has_values);
  if (!all.ok()) return all.status();
  manifest.contents = *std::move(all);
  for (const FileSum& file : manifest.contents.files) *bytes += file.bytes;
  for (const std::string& name : names) std::filesystem::remove(StrCat(begun.partial, "/", name));
  return Commit(options.folder, begun, manifest, options.keep_last, disk);
}

// A name that says which elements of a tensor these are: "model.w", "model.w[0:16]", "model.w[0:4 of 8]",
// "model.w[0:4 of 8][0:2]".
std::string StoredName(const LocalPiece& h, std::string_view name) {
  const Region& r = h.where;
  return StrCat(name, r.contiguous() ? "" : StrCat("[", r.column, ":", r.column + r.width, " of ", r.row, "]"),
                r == r.Band(h.shape.numel()) ? "" : StrCat("[", r.first, ":", r.first + r.count, "]"));
}

// Whether every rank holds all that is saved.
bool IsWhole(DeviceMesh& mesh, ParameterLayout& layout) {
  return layout.ReducerStates().empty() && layout.shard_group() == nullptr &&
         mesh.Group(MeshGroup::kReplicas).size() == mesh.world().size() &&
         mesh.Group(MeshGroup::kExpertReplicas).size() == mesh.world().size();
}

}  // namespace

struct Saver::Running {
  int64_t step = 0;
  Begun begun;
  Seconds start, stood_still;
  Seconds waited;  // for the previous save
  int64_t bytes = 0;
  Bytes own;                         // what this rank writes
  Seconds written_at, committed_at;  // by the model of files; without one: when the save had begun
  bool noted = false;
  std::vector<std::shared_ptr<const FileSum>> files;  // this rank's, in the order of the file indices in `tensors`
  std::vector<Entry> tensors;
  std::function<absl::Status(Worker&)> commit;  // on rank 0, until it is posted
  // `committer`, on rank 0, completes the save. Both are null if nothing is written. Declared last, so that they are
  // destroyed before the members that their tasks use.
  std::unique_ptr<Worker> writer, committer;
};

Saver::Saver(RankContext& rank, DeviceMesh& mesh, ParameterLayout& layout, const optim::Optimizer& optimizer,
             SaveOptions options, Metadata metadata, LocalUpdate* local_update)
    : rank_(rank),
      mesh_(mesh),
      layout_(layout),
      optimizer_(optimizer),
      local_update_(local_update),
      options_(std::move(options)),
      metadata_(std::move(metadata)),
      writes_(rank.device().holds() != Holds::kNothing),
      whole_(local_update == nullptr && IsWhole(mesh, layout)) {
  if (!writes_) rank_.AddNote("data SYMBOLIC: no checkpoint was written; its messages, memory and time are counted");
  if (rank.device().holds() == Holds::kBytes) {
    rank_.AddNote(
        "device EMULATED: checkpoints have the sizes of real ones, but no values; only runs with device: EMULATED "
        "resume from them");
  }
  if (!writes_ || rank_.rank() != 0) return;
  absl::StatusOr<Claim> claim = Claim::Make(options_.folder, rank_.disk());
  // The run has claimed the folder when it began. In a later generation, a member that the others went on without may
  // hold that claim still: while it hangs, or until it has ended.
  if (absl::IsFailedPrecondition(claim.status()) && rank_.generation().number > 0) return;
  ThrowIf(claim.status());
  claim_.emplace(*std::move(claim));
}

Saver::~Saver() = default;

void Saver::ThrowIf(const absl::Status& status) const {
  if (status.ok()) return;
  rank_.CheckInterrupt();  // one that is lost or interrupted cannot write, either
  throw RunOver(rank_.rank(), StrCat("rank ", rank_.rank(), ": checkpoint: ", std::string(status.message())));
}

void Saver::Save(int64_t step, std::map<std::string, double> scalars) {
  const Seconds called = rank_.clock().Now();
  Finish();
  layout_.AverageBuffers();
  if (local_update_ != nullptr) outer_states_ = local_update_->Settle();
  Begin(step);
  running_->waited = running_->start - called;
  const bool alone = options_.full && whole_;
  alone ? SaveWhole() : SaveShards();
  ExpectEnd();
  outer_states_.clear();
  std::vector<std::string> parts;
  for (int r = 0; r < (alone ? 1 : rank_.world_size()); ++r) parts.push_back(StrCat(RankFile(r), kPartEnding));
  if (writes_ && rank_.rank() == 0) PrepareCommit(std::move(parts), std::move(scalars));
  if (!rank_.files_are_modelled())
    PostCommit();
  else if (writes_)  // a rank that is lost from now on leaves whole files
    ThrowIf(running_->writer->Wait());
  if (!options_.asynchronous) return Complete();
  running_->stood_still = running_->waited + (rank_.clock().Now() - running_->start);
}

// What a simulation says about when the files are there.
void Saver::ExpectEnd() {
  running_->written_at = running_->committed_at = rank_.clock().Now() + rank_.WriteTime(running_->own);
  if (!options_.full || whole_) return;
  const Bytes all = running_->own * rank_.world_size();
  running_->committed_at += rank_.ReadTime(all) + rank_.WriteTime(all);
}

void Saver::Finish() {
  if (running_ != nullptr) Complete();
}

// All ranks meet. A rank that could not write has failed by then, so no rank waits for files that never come.
void Saver::Complete() {
  if (writes_) ThrowIf(running_->writer->Wait());
  rank_.WaitUntil(running_->written_at);
  rank_.world().Barrier().Wait();
  PostCommit();
  if (running_->committer != nullptr) ThrowIf(running_->committer->Wait());
  if (rank_.rank() == 0) rank_.WaitUntil(std::max(running_->committed_at, rank_.clock().Now()));
  if (!options_.asynchronous) running_->stood_still = running_->waited + (rank_.clock().Now() - running_->start);
  NoteWhole();
  running_.reset();
}

void Saver::NoteWhole() {
  if (rank_.rank() != 0 || std::exchange(running_->noted, true)) return;
  done_.push_back({.step = running_->step,
                   .path = writes_ ? running_->begun.final : "",
                   .bytes = Bytes(running_->bytes),
                   .stood_still = running_->stood_still,
                   .seconds = rank_.clock().Now() - running_->start});
}

std::vector<Saved> Saver::Poll() {
  if (running_ == nullptr) return std::exchange(done_, {});
  if (writes_) ThrowIf(running_->writer->status());
  const bool due = rank_.clock().Now() >= running_->committed_at;  // real fabrics: always
  if (due) PostCommit();
  if (due && rank_.files_are_modelled() && running_->committer != nullptr) ThrowIf(running_->committer->Wait());
  if (due && (running_->committer == nullptr || running_->committer->idle())) {
    if (running_->committer != nullptr) ThrowIf(running_->committer->status());
    NoteWhole();
  }
  return std::exchange(done_, {});
}

// Rank 0 makes the folder and sends its sequence number to the others.
void Saver::Begin(int64_t step) {
  running_ = std::make_unique<Running>();
  running_->step = step;
  running_->start = rank_.clock().Now();
  uint64_t sequence = 0;
  if (writes_ && rank_.rank() == 0) {
    const absl::StatusOr<Begun> begun = checkpoint::Begin(options_.folder, step, rank_.disk());
    ThrowIf(begun.status());
    sequence = static_cast<uint64_t>(begun->sequence);
  }
  Device& device = rank_.device();
  Tensor told = device.NewTensor(Shape{sizeof(sequence)}, DType::kU8, Category::kOther);
  device.WriteBytes(told, [&](std::span<std::byte> out) { std::memcpy(out.data(), &sequence, sizeof(sequence)); });
  rank_.world().Broadcast(told, 0).WaitOn(device.compute());
  device.ReadBytes(told, std::as_writable_bytes(std::span(&sequence, 1)));
  running_->begun = Named(options_.folder, static_cast<int64_t>(sequence), step);
  if (!writes_) return;
  running_->writer =
      std::make_unique<Worker>(options_.asynchronous ? 0 : 4 * WriteBuffer::kSize, options_.asynchronous);
}

// ---- What is written ----

// Adds the part that this rank writes of what it holds. `copies` sets of replicas hold the same; its own is number
// `copy`.
void Saver::AddShare(std::vector<LocalPiece> held, int64_t copy, int64_t copies, std::vector<LocalPiece>& share) {
  std::map<nn::GroupTag, std::vector<LocalPiece>> by_replicas;
  for (LocalPiece& piece : held) {
    if (piece.owned) by_replicas[piece.replicas].push_back(std::move(piece));
  }
  for (const auto& [tag, pieces] : by_replicas) {
    const ProcessGroup& replicas = mesh_.Group(tag == kExpertsTag ? MeshGroup::kExpertReplicas : MeshGroup::kReplicas);
    const ProcessGroup* holders = layout_.shard_group(tag);
    const int64_t shards = holders == nullptr ? 1 : holders->size();  // each shard group is consecutive ranks
    const int64_t sets = replicas.size() / shards;
    for (LocalPiece& piece : ShareOf(pieces, copy * sets + replicas.rank() / shards, copies * sets))
      share.push_back(std::move(piece));
  }
}

// The pieces that this rank writes.
std::vector<LocalPiece> Saver::OwnShare() {
  const ProcessGroup& islands = mesh_.Group(MeshGroup::kIslands);
  std::vector<LocalPiece> held = LocalParameters(layout_), share;
  for (LocalPiece& state : LocalStates(layout_, optimizer_)) held.push_back(std::move(state));
  NameOfIsland(held, islands.rank());
  AddShare(std::move(held), 0, 1, share);
  AddShare(LocalOuterStates(outer_states_), islands.rank(), islands.size(), share);
  for (LocalPiece& state : OwnOuterStates(outer_states_, rank_.rank())) share.push_back(std::move(state));
  const ProcessGroup& batch = mesh_.Group(MeshGroup::kBatch);
  for (LocalPiece& buffer : ShareOf(LocalBuffers(layout_), batch.rank(), batch.size()))
    share.push_back(std::move(buffer));
  for (LocalPiece& state : LocalReducerStates(layout_, rank_.rank())) share.push_back(std::move(state));
  return share;
}

// `prefixed`: names in the file keep their "model.", "buffer." or "optimizer." prefix.
void Saver::WriteFile(const std::string& name, std::vector<LocalPiece> held, bool prefixed) {
  running_->own += BytesOf(held);
  if (!writes_) return;
  std::stable_sort(held.begin(), held.end(), [](const LocalPiece& a, const LocalPiece& b) {  // aligns every element
    return ElementSize(a.data.dtype()) > ElementSize(b.data.dtype());
  });
  const auto file = static_cast<int64_t>(running_->files.size());
  std::vector<StoredTensor> stored;
  std::map<std::string, size_t> index;
  for (const LocalPiece& h : held) {
    const Region& where = h.where;
    const int64_t rows = h.shape.numel() / where.row;
    const bool whole = where == where.Band(h.shape.numel());
    const std::string tensor = StoredName(h, prefixed ? h.name : h.name.substr(h.name.find('.') + 1));
    stored.push_back({tensor, h.data.dtype(),
                      !whole               ? Shape{where.count}
                      : where.contiguous() ? h.shape
                                           : Shape{rows, where.width}});
    const auto [found, fresh] = index.emplace(h.name, running_->tensors.size());
    if (fresh)
      running_->tensors.push_back(
          {.name = h.name, .dtype = h.data.dtype(), .shape = h.shape, .pieces = {}, .holds = h.holds});
    running_->tensors[found->second].pieces.push_back({file, tensor, where});
  }
  FileStream stream(*running_->writer, buffers_, rank_.device(), rank_.disk(), running_->begun.partial, name,
                    std::move(stored));
  for (const LocalPiece& h : held) stream.Append(h.data);
  stream.Finish();
  running_->files.push_back(stream.sum());
}

void Saver::SaveShards() {
  const std::string name = RankFile(rank_.rank());
  WriteFile(StrCat(name, ".safetensors"), OwnShare(), /*prefixed=*/true);
  PostPart(StrCat(name, kPartEnding));
}

void Saver::SaveWhole() {
  if (rank_.rank() != 0) return;
  std::vector<LocalPiece> model = LocalParameters(layout_), states = LocalStates(layout_, optimizer_);
  for (LocalPiece& buffer : LocalBuffers(layout_)) model.push_back(std::move(buffer));
  WriteFile(kModelFile, std::move(model), /*prefixed=*/false);
  if (!states.empty()) WriteFile(kOptimizerFile, std::move(states), /*prefixed=*/false);
  PostPart(StrCat(RankFile(0), kPartEnding));
}

// ---- The end of a save ----

// Publishes the contents of this rank's files, once these are on the disk.
void Saver::PostPart(const std::string& name) {
  if (!writes_) return;
  running_->writer->Post(0, [files = running_->files, tensors = running_->tensors, folder = running_->begun.partial,
                             name, disk = &rank_.disk()] {
    Contents part;
    for (const auto& file : files) part.files.push_back(*file);
    part.tensors = tensors;
    if (absl::Status status = SyncFolder(folder, *disk); !status.ok())
      return status;                                               // makes the names of `files` durable
    return PublishSmallFile(folder, name, PartText(part), *disk);  // the committer may rename the folder at once
  });
}

void Saver::PrepareCommit(std::vector<std::string> parts, std::map<std::string, double> scalars) {
  Manifest manifest{metadata_, {}};
  manifest.metadata.sequence = running_->begun.sequence;
  manifest.metadata.step = running_->step;
  manifest.metadata.updates = optimizer_.updates();
  manifest.metadata.has_values = rank_.device().holds() == Holds::kValues;
  manifest.metadata.scalars = std::move(scalars);
  running_->commit = [options = options_, begun = running_->begun, parts = std::move(parts),
                      assemble = options_.full && !whole_, manifest = std::move(manifest), bytes = &running_->bytes,
                      disk = &rank_.disk()](Worker& worker) {
    return CommitParts(worker, *disk, options, begun, parts, assemble, manifest, bytes);
  };
}

// Once for each save, and only where PrepareCommit was called.
void Saver::PostCommit() {
  if (running_->commit == nullptr) return;
  running_->committer = std::make_unique<Worker>(0, options_.asynchronous);
  running_->committer->Post(0, [worker = running_->committer.get(), commit = std::exchange(running_->commit, nullptr)] {
    return commit(*worker);
  });
}

}  // namespace twofold::checkpoint
