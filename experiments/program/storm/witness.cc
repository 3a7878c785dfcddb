#include "experiments/program/storm/witness.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "core/base/philox.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "xxhash.h"

namespace twofold::storm {

struct Witness::Memory {
  static constexpr size_t kMost = 1 << 21;  // of what is seen; only what is written takes memory
  static constexpr size_t kMostText = 1 << 16;
  std::atomic<size_t> count, text_size;
  char text[kMostText];  // lines
  Seen seen[kMost];
};

absl::StatusOr<std::unique_ptr<Witness>> Witness::Make() {
  void* const memory =
      mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return Internal("mmap of ", sizeof(Memory), " bytes: ", std::strerror(errno));
  return std::unique_ptr<Witness>(new Witness(static_cast<Memory*>(memory)));  // zeros are an empty witness
}

Witness::~Witness() { munmap(memory_, sizeof(Memory)); }

void Witness::Forget() { memory_->count = 0, memory_->text_size = 0; }

std::span<const Seen> Witness::seen() const { return {memory_->seen, std::min<size_t>(memory_->count, Memory::kMost)}; }

bool Witness::full() const { return memory_->count > Memory::kMost; }

std::vector<std::string> Witness::ends() const {
  return absl::StrSplit(absl::string_view(memory_->text, memory_->text_size), '\n', absl::SkipEmpty());
}

void Witness::NoteEnd(int member, const std::string& text) {
  std::string line = StrCat("member ", member, ": ", text.substr(0, text.find('\n')), "\n");
  const size_t at = memory_->text_size;
  if (at + line.size() > Memory::kMostText) return;
  std::copy(line.begin(), line.end(), memory_->text + at);
  memory_->text_size = at + line.size();
}

void Witness::Note(const Seen& seen) {
  const size_t at = memory_->count++;
  if (at < Memory::kMost) memory_->seen[at] = seen;
}

namespace {

uint64_t KeyOf(const checkpoint::LocalPiece& piece) {
  const Region& r = piece.where;
  const int64_t where[] = {r.row, r.column, r.width, r.first, r.count, static_cast<int64_t>(piece.data.dtype())};
  return StableHash({reinterpret_cast<const char*>(where), sizeof where}, StableHash(piece.name));
}

uint64_t MembersOf(const Generation& generation) {
  return StableHash({reinterpret_cast<const char*>(generation.members.data()),
                     generation.members.size() * sizeof generation.members[0]});
}

// Names of checkpoints begin with it: ".../000003-step-60".
uint64_t SequenceOf(const std::string& path) { return std::strtoull(path.c_str() + path.rfind('/') + 1, nullptr, 10); }

// Tells which samples are read.
class WatchedDataset : public Dataset {
 public:
  WatchedDataset(const Dataset& of, std::function<void(int64_t)> reads) : of_(of), reads_(std::move(reads)) {}
  int64_t size() const override { return of_.size(); }
  SampleType input() const override { return of_.input(); }
  SampleType target() const override { return of_.target(); }
  std::string Describe() const override { return of_.Describe(); }
  void Read(int64_t index, std::span<std::byte> input, std::span<std::byte> target) const override {
    reads_(index);
    of_.Read(index, input, target);
  }

 private:
  const Dataset& of_;
  const std::function<void(int64_t)> reads_;
};

}  // namespace

void Witness::Watch(TrainingOptions& options) {
  options.watch = [this](RankContext& ctx, int64_t steps, const std::vector<checkpoint::LocalPiece>& held) {
    const int member = ctx.member(), generation = ctx.generation().number;
    Note({.what = Seen::kDone,
          .member = member,
          .generation = generation,
          .steps = steps,
          .key = MembersOf(ctx.generation()),
          .time = ctx.clock().Now().value()});
    for (const checkpoint::LocalPiece& piece : held) {
      if (absl::StartsWith(piece.name, checkpoint::kBuffer)) continue;  // running statistics are each rank's own
      Note({.what = Seen::kPiece,
            .member = member,
            .generation = generation,
            .steps = steps,
            .key = KeyOf(piece),
            .value = XXH3_64bits(piece.data.raw(), static_cast<size_t>(piece.data.bytes().value()))});
    }
  };
  if (!options.elastic) return;
  options.elastic->with = [with = options.elastic->with, watch = options.watch](int64_t dp) {
    const std::shared_ptr<const TrainingOptions> other = with(dp);
    if (other == nullptr) return other;
    auto watched = std::make_shared<TrainingOptions>(*other);
    watched->watch = watch;
    return std::shared_ptr<const TrainingOptions>(std::move(watched));
  };
}

std::string Witness::Train(RankContext& ctx, const TrainingOptions& options, const Samples& samples) {
  const auto note = [&](Seen::What what, uint64_t value) {
    Note({.what = what,
          .member = ctx.member(),
          .generation = ctx.generation().number,
          .value = value,
          .time = ctx.clock().Now().value()});
  };
  const WatchedDataset training(samples.training,
                                [&](int64_t index) { note(Seen::kSample, static_cast<uint64_t>(index)); });
  try {
    std::string record = TrainRank(ctx, options, {training, samples.validation}, [&](const StepProgress& progress) {
      if (progress.saved != nullptr && !progress.saved->path.empty()) {
        Note({.what = Seen::kSaved,
              .member = ctx.member(),
              .generation = ctx.generation().number,
              .steps = progress.saved->step,
              .value = SequenceOf(progress.saved->path),
              .time = ctx.clock().Now().value()});
      }
    });
    note(Seen::kEnds, 1);
    return record;
  } catch (const std::exception& error) {
    note(Seen::kEnds, 0);
    NoteEnd(ctx.member(), error.what());
    throw;
  }
}

}  // namespace twofold::storm
