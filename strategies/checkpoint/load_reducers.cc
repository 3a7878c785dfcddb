#include "strategies/checkpoint/load_reducers.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/strings.h"
#include "strategies/checkpoint/agree.h"
#include "strategies/checkpoint/pieces.h"

namespace twofold::checkpoint {
namespace {

// The words of "reducer.<rank>.<state>.<which elements>".
struct StoredState {
  const Entry* entry;
  std::string state, which;
};

std::vector<StoredState> StoredStates(const Manifest& manifest) {
  std::vector<StoredState> stored;
  for (const Entry& entry : manifest.contents.tensors) {
    if (!absl::StartsWith(entry.name, kReducer)) continue;
    const std::vector<std::string> words = absl::StrSplit(entry.name, absl::MaxSplits('.', 3));
    if (words.size() == 4) stored.push_back({&entry, words[2], words[3]});
  }
  return stored;
}

// What the ranks that saved a checkpoint kept, summed element by element.
class Sums {
 public:
  Sums(Reader& reader, const std::vector<StoredState>& stored) : reader_(reader) {
    for (const auto& [entry, state, which] : stored) {
      states_.insert(state);
      if (entry->holds.empty()) whole_.emplace(StrCat(state, ".", which), entry);
      for (const Held& held : entry->holds) parts_[{state, held.parameter}].push_back({entry, &held});
    }
  }
  const std::set<std::string>& states() const { return states_; }
  bool Has(const std::string& state, const std::string& parameter) const { return parts_.contains({state, parameter}); }

  // A state of one parameter's: that of some rank, which is equal on all. Null if no rank had it.
  const Entry* OfParameter(const std::string& name) const {
    const auto found = whole_.find(name);
    return found == whole_.end() ? nullptr : found->second;
  }

  // Adds the sum over the ranks to the elements `where` of the parameter.
  absl::Status AddTo(std::span<double> sums, const std::string& state, const std::string& parameter,
                     const Region& where) {
    const auto found = parts_.find({state, parameter});
    if (found == parts_.end()) return absl::OkStatus();
    absl::Status status;
    for (const auto& [entry, held] : found->second) {
      where.ForRuns([&](int64_t i, int64_t index, int64_t n) {
        held->where.ForOverlap(index, n, [&](int64_t at, int64_t place, int64_t count) {
          const int64_t begin = std::max(place, held->where.first),
                        end = std::min(place + count, held->where.first + held->where.count);
          if (begin >= end || !status.ok()) return;
          status = Add(sums.subspan(static_cast<size_t>(i + at + begin - place), static_cast<size_t>(end - begin)),
                       *entry, held->at + begin - held->where.first, held->weight);
        });
      });
    }
    return status;
  }

 private:
  absl::Status Add(std::span<double> sums, const Entry& entry, int64_t first, double weight) {
    std::vector<double> values(sums.size());
    const Region where = Region::Run(entry.shape.numel(), first, static_cast<int64_t>(sums.size()));
    const absl::Status status =
        reader_.Read(entry.name, entry.shape, DType::kF64, where, std::as_writable_bytes(std::span(values)));
    for (size_t i = 0; i < sums.size() && status.ok(); ++i) sums[i] += weight * values[i];
    return status;
  }

  Reader& reader_;
  std::set<std::string> states_;
  std::map<std::string, const Entry*> whole_;
  std::map<std::pair<std::string, std::string>, std::vector<std::pair<const Entry*, const Held*>>> parts_;
};

// Whether the checkpoint has what this rank's reducers keep, for the same elements, and nothing else of this rank's.
bool HasThese(const Reader& reader, const Manifest& manifest, const std::vector<LocalPiece>& states, int rank) {
  const std::string mine = StrCat(kReducer, rank, ".");
  const auto stored = std::count_if(manifest.contents.tensors.begin(), manifest.contents.tensors.end(),
                                    [&](const Entry& entry) { return absl::StartsWith(entry.name, mine); });
  return stored == static_cast<int64_t>(states.size()) &&
         std::all_of(states.begin(), states.end(), [&](const LocalPiece& state) {
           const Entry* entry = reader.Find(state.name);
           return entry != nullptr && entry->shape == state.shape && entry->dtype == state.data.dtype() &&
                  entry->holds == state.holds;
         });
}

// Uploads a flat tensor in parts. `read` fills the elements from `at` on.
absl::Status Upload(Device& device, const Tensor& tensor,
                    absl::FunctionRef<absl::Status(int64_t at, std::span<std::byte> out)> read) {
  constexpr int64_t kPart = 1 << 19;  // elements
  const Tensor flat = tensor.Flat();
  absl::Status status;
  for (int64_t at = 0; at < flat.numel() && status.ok(); at += kPart) {
    Tensor part = flat.Slice(at, std::min(kPart, flat.numel() - at));
    device.WriteBytes(part, [&](std::span<std::byte> out) { status = read(at, out); });
  }
  device.compute().Synchronize();
  return status;
}

absl::Status LoadStored(Device& device, Reader& reader, const Entry& entry, const Tensor& tensor) {
  return Upload(device, tensor, [&](int64_t at, std::span<std::byte> out) {
    const int64_t count = static_cast<int64_t>(out.size()) / ElementSize(tensor.dtype());
    return reader.Read(entry.name, entry.shape, tensor.dtype(), Region::Run(entry.shape.numel(), at, count), out);
  });
}

// Fills a state of stage 0 with this rank's parts of the sums. Later stages' begin with zeros, as they are.
absl::Status LoadPart(Device& device, Sums& sums, const NamedState& kept) {
  const Tensor flat = kept.state.tensor.Flat();
  for (const NamedState::Elements& e : kept.holds) {
    const Tensor part = flat.Slice(e.at, e.where.count);
    const absl::Status status = Upload(device, part, [&](int64_t at, std::span<std::byte> out) {
      std::vector<double> values(out.size() / static_cast<size_t>(ElementSize(part.dtype())));
      const Region where = e.where.Slice(at, static_cast<int64_t>(values.size()));
      const absl::Status read = sums.AddTo(values, kept.state.name, e.parameter->name(), where);
      for (size_t i = 0; i < values.size(); ++i) {
        const double value = values[i] / e.total;
        if (part.dtype() == DType::kF64)
          reinterpret_cast<double*>(out.data())[i] = value;
        else
          reinterpret_cast<float*>(out.data())[i] = static_cast<float>(value);
      }
      return read;
    });
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

std::string NamesOf(const std::set<std::string>& states) { return absl::StrJoin(states, " and "); }

// Whether the checkpoint has values for one of this rank's parameters, whose gradient is not reduced here.
bool HasNoPlace(const Sums& sums, const ParameterLayout& layout, const std::vector<NamedState>& kept) {
  std::set<std::string> states;
  std::set<std::pair<std::string, std::string>> places;  // state and parameter
  for (const NamedState& k : kept) {
    states.insert(k.state.name);
    for (const NamedState::Elements& e : k.holds) places.emplace(k.state.name, e.parameter->name());
  }
  for (const nn::Parameter* p : layout.Parameters()) {
    for (const std::string& state : states) {
      if (sums.Has(state, p->name()) && !places.contains({state, p->name()})) return true;
    }
  }
  return false;
}

// Says what became of the states, by name. `kept`: those of this run. `all_placed`: every saved element of theirs has a
// place. `all_factors`: the checkpoint has all factors of parameters.
void AddNotes(RankContext& rank, const Manifest& manifest, const std::set<std::string>& saved,
              const std::set<std::string>& kept, bool all_placed, bool all_factors) {
  std::set<std::string> taken, dropped, fresh;
  std::set_intersection(saved.begin(), saved.end(), kept.begin(), kept.end(), std::inserter(taken, taken.end()));
  std::set_difference(saved.begin(), saved.end(), kept.begin(), kept.end(), std::inserter(dropped, dropped.end()));
  std::set_difference(kept.begin(), kept.end(), saved.begin(), saved.end(), std::inserter(fresh, fresh.end()));
  taken.erase("factors");  // these are taken over as they are
  if (!all_factors && saved.contains("factors"))
    rank.AddNote("compression's factors begin anew where no rank had the same part of the parameter");
  if (!taken.empty()) {
    rank.AddNote(StrCat("what compression keeps (", NamesOf(taken), ") was divided anew: the checkpoint has it for ",
                        manifest.metadata.world_size,
                        " ranks or for other buckets. Each rank begins with an equal part of the sum"));
  }
  if (!all_placed) rank.AddNote("what compression had kept of parameters that only one rank trains now was dropped");
  if (!dropped.empty()) {
    rank.AddNote(StrCat("what compression had kept (", NamesOf(dropped),
                        ") was dropped: this run's gradients are not encoded in that way"));
  }
  if (!fresh.empty()) rank.AddNote(StrCat("compression begins without ", NamesOf(fresh), ": the checkpoint has none"));
}

}  // namespace

absl::Status LoadReducers(RankContext& rank, Reader& reader, const Manifest& manifest, const ParameterLayout& layout) {
  const std::vector<StoredState> stored = StoredStates(manifest);
  const std::vector<NamedState> kept = layout.ReducerStates();
  if (stored.empty() && kept.empty()) return absl::OkStatus();
  const std::vector<LocalPiece> states = LocalReducerStates(layout, rank.rank());
  const bool same_ranks = manifest.metadata.world_size == rank.world_size();
  Sums sums(reader, stored);
  const bool same = OnAllRanks(rank, same_ranks && HasThese(reader, manifest, states, rank.rank())) && same_ranks;
  const bool all_placed = same || OnAllRanks(rank, !HasNoPlace(sums, layout, kept));
  std::set<std::string> names;
  bool has_factors = true;
  absl::Status status;
  for (size_t i = 0; i < kept.size() && status.ok(); ++i) {
    const ReducerState& state = kept[i].state;
    names.insert(state.name);
    const Entry* entry = same                         ? reader.Find(states[i].name)
                         : state.parameter != nullptr ? sums.OfParameter(kept[i].name)
                                                      : nullptr;
    const bool found = entry != nullptr && entry->shape == states[i].shape;
    has_factors &= found || state.parameter == nullptr;
    if (found)
      status = LoadStored(rank.device(), reader, *entry, states[i].data);
    else if (state.stage == 0 && state.parameter == nullptr && sums.states().contains(state.name))
      status = LoadPart(rank.device(), sums, kept[i]);
  }
  if (same) return status;
  const bool all_factors = OnAllRanks(rank, has_factors);
  if (!status.ok()) return status;
  if (rank.rank() == 0) AddNotes(rank, manifest, sums.states(), names, all_placed, all_factors);
  return absl::OkStatus();
}

}  // namespace twofold::checkpoint
