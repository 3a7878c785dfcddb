#include "strategies/checkpoint/save.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <utility>

#include "absl/strings/str_format.h"
#include "core/base/errors.h"
#include "core/base/strings.h"

namespace twofold::checkpoint {
namespace {

// Whether what is put on the device can be had back.
bool DataExists(Device& device) {
  bool exists = false;
  Tensor probe = device.NewTensor(Shape{1}, DType::kU8, Category::kOther);
  device.Upload(probe, [&exists](std::span<std::byte> out) {
    exists = true;
    std::memset(out.data(), 0, out.size());
  });
  device.compute().Synchronize();
  return exists;
}

std::string RankFile(int rank) { return absl::StrFormat("rank-%05d", rank); }

constexpr char kPartEnding[] = ".part.json";

// The contents of a part, once its rank has left it. It is written aside and renamed: what is there is whole.
absl::StatusOr<Contents> AwaitPart(Worker& worker, const std::string& folder, const std::string& name) {
  const std::string path = StrCat(folder, "/", name);
  std::error_code error;
  while (!std::filesystem::exists(path, error)) {
    if (!std::filesystem::is_directory(folder, error)) return absl::UnavailableError(StrCat(folder, ": was deleted or renamed while it was written"));
    if (!worker.Sleep()) return absl::CancelledError("given up");
  }
  const absl::StatusOr<std::string> text = ReadSmallFile(path, int64_t{1} << 30);
  if (!text.ok()) return text.status();
  return ParsePart(path, *text);
}

// Gathers what the parts say, seals it, and makes the checkpoint one.
absl::Status CommitParts(Worker& worker, const SaveOptions& options, const Begun& begun, const std::vector<std::string>& names,
                         Manifest manifest, int64_t* bytes) {
  std::vector<Contents> parts;
  for (const std::string& name : names) {
    absl::StatusOr<Contents> part = AwaitPart(worker, begun.partial, name);
    if (!part.ok()) return part.status();
    parts.push_back(*std::move(part));
  }
  absl::StatusOr<Contents> all = Merge(begun.partial, std::move(parts));
  if (!all.ok()) return all.status();
  manifest.contents = *std::move(all);
  for (const FileSum& file : manifest.contents.files) *bytes += file.bytes;
  for (const std::string& name : names) std::filesystem::remove(StrCat(begun.partial, "/", name));
  return Commit(options.folder, begun, manifest, options.keep_last);
}

}  // namespace

struct Saver::Running {
  int64_t step = 0;
  Begun begun;
  Seconds start, stood_still;
  Seconds waited;  // for the save before it
  int64_t bytes = 0;
  bool noted = false;
  std::vector<std::shared_ptr<const FileSum>> files;  // of this rank, in the order in which `tensors` name them
  std::vector<Entry> tensors;
  // The second, on rank 0, ends the save. Null where nothing is written. Gone before what their tasks use.
  std::unique_ptr<Worker> writer, committer;
};

Saver::Saver(RankContext& rank, ProcessGroup& replicas, ParameterLayout& layout, const optim::Optimizer& optimizer,
             SaveOptions options, Facts facts)
    : rank_(rank),
      replicas_(replicas),
      layout_(layout),
      optimizer_(optimizer),
      options_(std::move(options)),
      facts_(std::move(facts)),
      writes_(DataExists(rank.device())) {
  if (!writes_) rank_.AddNote("data SYMBOLIC: no checkpoint was written; its messages and memory are those of one that is, its time on the disk is not in it");
  if (!writes_ || rank_.rank() != 0) return;
  absl::StatusOr<Claim> claim = Claim::Make(options_.folder);
  ThrowIf(claim.status());
  claim_.emplace(*std::move(claim));
}

Saver::~Saver() = default;

void Saver::ThrowIf(const absl::Status& status) const {
  if (status.ok()) return;
  throw RankFailure(RankFailure::Kind::kOther, rank_.rank(), StrCat("rank ", rank_.rank(), ": checkpoint: ", std::string(status.message())));
}

void Saver::Save(int64_t step, std::map<std::string, double> scalars) {
  const Seconds called = rank_.clock().Now();
  Finish();
  layout_.AverageBuffers();
  Begin(step);
  running_->waited = running_->start - called;
  options_.full ? SaveWhole() : SaveShards();
  std::vector<std::string> parts;
  if (options_.full) {
    parts.push_back(StrCat(RankFile(0), kPartEnding));
  } else {
    for (int r = 0; r < rank_.world_size(); ++r) parts.push_back(StrCat(RankFile(r), kPartEnding));
  }
  if (writes_ && rank_.rank() == 0) PostCommit(std::move(parts), std::move(scalars));
  if (!options_.asynchronous) return Complete();
  running_->stood_still = running_->waited + (rank_.clock().Now() - running_->start);
}

void Saver::Finish() {
  if (running_ != nullptr) Complete();
}

// The ranks meet: whoever could not write has said so by then, and nobody waits for files that never come.
void Saver::Complete() {
  if (writes_) ThrowIf(running_->writer->Wait());
  rank_.world().Barrier().Wait();
  if (running_->committer != nullptr) ThrowIf(running_->committer->Wait());
  if (!options_.asynchronous) running_->stood_still = running_->waited + (rank_.clock().Now() - running_->start);
  NoteWhole();
  running_.reset();
}

void Saver::NoteWhole() {
  if (running_->committer == nullptr || std::exchange(running_->noted, true)) return;
  done_.push_back({.step = running_->step,
                   .path = running_->begun.final,
                   .bytes = Bytes(running_->bytes),
                   .stood_still = running_->stood_still,
                   .seconds = rank_.clock().Now() - running_->start});
}

std::vector<Saved> Saver::Poll() {
  if (running_ != nullptr && writes_) {
    ThrowIf(running_->writer->status());
    if (running_->committer != nullptr && running_->committer->idle()) {
      ThrowIf(running_->committer->status());
      NoteWhole();
    }
  }
  return std::exchange(done_, {});
}

// Rank 0 makes the folder; the others learn its name.
void Saver::Begin(int64_t step) {
  running_ = std::make_unique<Running>();
  running_->step = step;
  running_->start = rank_.clock().Now();
  uint64_t sequence = 0;
  if (writes_ && rank_.rank() == 0) {
    const absl::StatusOr<Begun> begun = checkpoint::Begin(options_.folder, step);
    ThrowIf(begun.status());
    sequence = static_cast<uint64_t>(begun->sequence);
  }
  Device& device = rank_.device();
  Tensor told = device.NewTensor(Shape{sizeof(sequence)}, DType::kU8, Category::kOther);
  device.Upload(told, [&](std::span<std::byte> out) { std::memcpy(out.data(), &sequence, sizeof(sequence)); });
  rank_.world().Broadcast(told, 0).WaitOn(device.compute());
  device.Download(told, std::as_writable_bytes(std::span(&sequence, 1)));
  running_->begun = Named(options_.folder, static_cast<int64_t>(sequence), step);
  if (!writes_) return;
  running_->writer = std::make_unique<Worker>(options_.asynchronous ? 0 : 4 * WriteBuffer::kSize, options_.asynchronous);
}

// ---- SHARDED ----

void Saver::SaveShards() {
  if (!writes_) return;
  const ProcessGroup* holders = layout_.holders();
  const int64_t shards = holders == nullptr ? 1 : holders->size();  // of consecutive ranks
  std::vector<Held> held = ParametersHeld(layout_);
  for (Held& state : StatesHeld(layout_, optimizer_)) held.push_back(std::move(state));
  held = ShareOf(held, replicas_.rank() / shards, replicas_.size() / shards);
  for (Held& buffer : ShareOf(BuffersHeld(layout_.model()), replicas_.rank(), replicas_.size())) held.push_back(std::move(buffer));
  std::stable_sort(held.begin(), held.end(), [](const Held& a, const Held& b) {  // so that every element is aligned
    return ElementSize(a.data.dtype()) > ElementSize(b.data.dtype());
  });

  std::vector<StoredTensor> stored;
  for (const Held& h : held) {
    const int64_t count = h.data.numel();
    const bool whole = count == h.shape.numel();
    const std::string name = whole ? h.name : StrCat(h.name, "[", h.first, ":", h.first + count, "]");
    stored.push_back({name, h.data.dtype(), whole ? h.shape : Shape{count}});
    running_->tensors.push_back({h.name, h.data.dtype(), h.shape, {{.file = 0, .tensor = name, .first = h.first, .count = count}}});
  }
  const std::string name = RankFile(rank_.rank());
  FileStream stream(*running_->writer, buffers_, rank_.device(), running_->begun.partial, StrCat(name, ".safetensors"), std::move(stored));
  for (const Held& h : held) stream.Append(h.data);
  stream.Finish();
  running_->files.push_back(stream.sum());
  PostPart(StrCat(name, kPartEnding));
}

// ---- FULL ----

void Saver::SaveWhole() {
  ProcessGroup* holders = layout_.holders();
  const bool root = rank_.rank() == 0;
  const bool beside_root = holders != nullptr && holders->ranks()[0] == rank_.world().ranks()[0];
  if (!root && !beside_root) return;
  const std::vector<optim::Slice> slices = layout_.Slices();
  const std::vector<Map> maps = ExchangeMaps(holders, slices);
  Target model{"model.safetensors", "model.", {}, BuffersHeld(layout_.model())};
  Target optimizer{"optimizer.safetensors", kOptimizer, {}, {}};
  for (size_t i = 0; i < slices.size(); ++i) {
    model.sources.push_back({i, slices[i].data.Flat(), ""});
    for (const optim::State& state : optimizer_.StateOf(i)) optimizer.sources.push_back({i, state.tensor.Flat(), StrCat(state.name, ".")});
  }
  WriteWhole(holders, maps, model);
  if (!optimizer.sources.empty()) WriteWhole(holders, maps, optimizer);
  if (writes_ && root) PostPart(StrCat(RankFile(0), kPartEnding));
}

// What every rank of the holders has in its slices, known to the first of them. A record a part: slice, parameter, first,
// offset, count. Every parameter is one slice's, so there are at most as many parts as parameters.
std::vector<Saver::Map> Saver::ExchangeMaps(ProcessGroup* holders, const std::vector<optim::Slice>& slices) {
  constexpr size_t kFields = 5;
  Map own;
  for (const optim::Slice& slice : slices) own.push_back(PartsOf(slice, layout_.model()));
  std::vector<Map> maps = {own};
  if (holders == nullptr) return maps;

  const std::vector<nn::Parameter*> parameters = layout_.model().Parameters();
  std::map<std::string, int64_t> index;
  for (size_t i = 0; i < parameters.size(); ++i) index[parameters[i]->name()] = static_cast<int64_t>(i);
  std::vector<int64_t> records(1 + kFields * parameters.size());
  Device& device = rank_.device();
  Tensor message = device.NewTensor(Shape{static_cast<int64_t>(records.size() * sizeof(int64_t))}, DType::kU8, Category::kOther);
  if (holders->rank() > 0) {
    size_t at = 1;
    for (size_t s = 0; s < own.size(); ++s) {
      for (const optim::Part& p : own[s]) {
        TWOFOLD_CHECK_LT(at, records.size());
        for (const int64_t field : {static_cast<int64_t>(s), index.at(p.parameter), p.first, p.offset, p.count}) records[at++] = field;
      }
    }
    records[0] = static_cast<int64_t>(at / kFields);
    device.Upload(message, [&](std::span<std::byte> out) { std::memcpy(out.data(), records.data(), out.size()); });
    holders->Send(message, 0).Wait();
    return maps;
  }
  for (int r = 1; r < holders->size(); ++r) {
    holders->Recv(message, r).Wait();
    std::fill(records.begin(), records.end(), 0);
    device.Download(message, std::as_writable_bytes(std::span(records)));
    Map map(slices.size());
    for (int64_t i = 0; i < records[0]; ++i) {
      const int64_t* record = &records[1 + kFields * static_cast<size_t>(i)];
      const nn::Parameter& p = *parameters.at(static_cast<size_t>(record[1]));
      map.at(static_cast<size_t>(record[0])).push_back(
          {.parameter = p.name(), .shape = p.shape(), .first = record[2], .offset = record[3], .count = record[4]});
    }
    maps.push_back(std::move(map));
  }
  return maps;
}

// Shards follow each other in the flat parameters as their ranks do, so the file is written from front to end.
void Saver::WriteWhole(ProcessGroup* holders, const std::vector<Map>& maps, const Target& target) {
  if (rank_.rank() != 0) {
    for (const Source& source : target.sources) Send(*holders, source.tensor);
    return;
  }
  std::vector<StoredTensor> stored;
  std::vector<int64_t> covered;
  for (const Source& source : target.sources) {
    for (const Map& map : maps) {
      for (const optim::Part& p : map[source.slice]) {
        const std::string name = source.prefix + p.parameter;
        if (p.first == 0) {
          stored.push_back({name, source.tensor.dtype(), p.shape});
          covered.push_back(0);
        }
        TWOFOLD_CHECK(!stored.empty() && stored.back().name == name && covered.back() == p.first, name + " is held in order");
        covered.back() += p.count;
      }
    }
  }
  for (const Held& h : target.more) stored.push_back({h.name.substr(h.name.find('.') + 1), h.data.dtype(), h.shape});
  std::optional<FileStream> stream;
  if (writes_) {
    const auto file = static_cast<int64_t>(running_->files.size());
    for (size_t i = 0; i < stored.size(); ++i) {
      const StoredTensor& t = stored[i];
      const bool more = i >= covered.size();
      if (!more) TWOFOLD_CHECK_EQ(covered[i], t.shape.numel());
      running_->tensors.push_back({more ? target.more[i - covered.size()].name : target.kind + t.name, t.dtype, t.shape,
                                   {{.file = file, .tensor = t.name, .first = 0, .count = t.shape.numel()}}});
    }
    stream.emplace(*running_->writer, buffers_, rank_.device(), running_->begun.partial, target.file, std::move(stored));
    running_->files.push_back(stream->sum());
  }
  for (const Source& source : target.sources) {
    if (stream) {
      for (const optim::Part& p : maps[0][source.slice]) stream->Append(source.tensor.Slice(p.offset, p.count));
    }
    if (holders != nullptr) Collect(*holders, maps, source, stream ? &*stream : nullptr);
  }
  if (!stream) return;
  for (const Held& h : target.more) stream->Append(h.data);
  stream->Finish();
}

void Saver::Collect(ProcessGroup& holders, const std::vector<Map>& maps, const Source& source, FileStream* out) {
  const int64_t numel = source.tensor.numel(), most = std::min(numel, kMessage / ElementSize(source.tensor.dtype()));
  if (numel == 0) return;
  const Tensor staging = rank_.device().NewTensor(Shape{most}, source.tensor.dtype(), Category::kOther);
  for (int r = 1; r < holders.size(); ++r) {
    for (int64_t at = 0; at < numel; at += most) {
      const int64_t count = std::min(most, numel - at);
      Tensor message = staging.Slice(0, count);
      holders.Recv(message, r).Wait();
      if (out == nullptr) continue;
      for (const optim::Part& p : maps[static_cast<size_t>(r)][source.slice]) {
        const int64_t begin = std::max(at, p.offset), end = std::min(at + count, p.offset + p.count);
        if (begin < end) out->Append(staging.Slice(begin - at, end - begin));
      }
    }
  }
}

void Saver::Send(ProcessGroup& holders, const Tensor& flat) {
  const int64_t most = kMessage / ElementSize(flat.dtype());
  for (int64_t at = 0; at < flat.numel(); at += most) holders.Send(flat.Slice(at, std::min(most, flat.numel() - at)), 0).Wait();
}

// ---- The end of a save ----

// This rank's files are on the disk, and this is what they hold.
void Saver::PostPart(const std::string& name) {
  running_->writer->Post(0, [files = running_->files, tensors = running_->tensors, folder = running_->begun.partial, name] {
    Contents part;
    for (const auto& file : files) part.files.push_back(*file);
    part.tensors = tensors;
    return WriteSmallFile(folder, name, PartText(part));
  });
}

void Saver::PostCommit(std::vector<std::string> parts, std::map<std::string, double> scalars) {
  Manifest manifest{facts_, {}};
  manifest.facts.sequence = running_->begun.sequence;
  manifest.facts.step = running_->step;
  manifest.facts.updates = optimizer_.updates();
  manifest.facts.scalars = std::move(scalars);
  running_->committer = std::make_unique<Worker>(0, options_.asynchronous);
  running_->committer->Post(0, [worker = running_->committer.get(), options = options_, begun = running_->begun, parts = std::move(parts),
                                manifest = std::move(manifest), bytes = &running_->bytes] {
    return CommitParts(*worker, options, begun, parts, manifest, bytes);
  });
}

}  // namespace twofold::checkpoint
