#include "backends/control/inquest.h"

#include <algorithm>
#include <map>
#include <utility>

#include "backends/control/call_log.h"
#include "core/base/errors.h"
#include "core/base/strings.h"

namespace twofold::control {
namespace {

using Kind = RankFailure::Kind;
using Witnesses = std::vector<Witness>;

Verdict Failed(Kind kind, int rank, std::string message) {
  Verdict v = VerdictOf(ToStatus(RankFailure(kind, rank, "")).code(), std::move(message));
  v.set_rank(rank);
  return v;
}

// ---- Calls that differ ----

struct Seen {
  int rank;
  const GroupLog* log;
};

uint64_t End(const GroupLog& log) { return log.first() + static_cast<uint64_t>(log.records_size()); }

// What each rank has called, by group.
std::map<uint64_t, std::vector<Seen>> LogsOf(const Witnesses& witnesses) {
  std::map<uint64_t, std::vector<Seen>> groups;
  for (size_t r = 0; r < witnesses.size(); ++r) {
    if (!witnesses[r].answer) continue;
    for (const GroupLog& log : witnesses[r].answer->logs()) groups[log.group()].push_back({static_cast<int>(r), &log});
  }
  return groups;
}

std::string Place(const Record& record, uint64_t sequence) {
  return StrCat(record.kind() == Communication::kSend ? "message " : "collective ", sequence);
}

const Record* At(const GroupLog& log, uint64_t sequence) {
  if (sequence < log.first() || sequence >= End(log)) return nullptr;
  return &log.records(static_cast<int>(sequence - log.first()));
}

std::optional<std::string> CountsDiffer(const Seen& from, const Seen& to, const Record& a, const Record& b,
                                        uint64_t sequence) {
  auto place = [](const GroupLog& log, int rank) {
    return static_cast<int>(std::find(log.ranks().begin(), log.ranks().end(), rank) - log.ranks().begin());
  };
  const int at = place(*from.log, to.rank), back = place(*from.log, from.rank);
  if (at >= a.in_counts_size() || back >= b.out_counts_size() || a.in_counts(at) == b.out_counts(back))
    return std::nullopt;
  return host::MismatchText(
      from.log->label(), StrCat("collective ", sequence), from.rank,
      StrCat("all_to_all_v sending ", a.in_counts(at), " elements to rank ", at, " of the group"), to.rank,
      StrCat("all_to_all_v expecting ", b.out_counts(back), " elements from rank ", back, " of the group"));
}

std::optional<std::string> Differ(const Seen& a, const Seen& b, uint64_t sequence) {
  const Record *x = At(*a.log, sequence), *y = At(*b.log, sequence);
  if (x == nullptr || y == nullptr) return std::nullopt;
  if (!SameRecord(*x, *y)) {
    return host::MismatchText(a.log->label(), Place(*x, sequence), a.rank, ToString(*x), b.rank, ToString(*y));
  }
  if (x->kind() != Communication::kAllToAllV) return std::nullopt;
  if (auto found = CountsDiffer(a, b, *x, *y, sequence)) return found;
  return CountsDiffer(b, a, *y, *x, sequence);
}

bool HasCountsByRank(const GroupLog& log) {
  return std::any_of(log.records().begin(), log.records().end(),
                     [](const Record& r) { return r.kind() == Communication::kAllToAllV; });
}

// The first call in which a rank differs from the lowest rank of its group whose log still has that call.
std::optional<std::pair<int, std::string>> FindMismatch(const Witnesses& witnesses) {
  std::optional<std::pair<int, std::string>> first;
  uint64_t lowest = 0;
  for (const auto& [group, seen] : LogsOf(witnesses)) {
    for (size_t i = 1; i < seen.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        for (uint64_t s = seen[i].log->first(); s < End(*seen[i].log) && (!first || s < lowest); ++s) {
          if (auto found = Differ(seen[j], seen[i], s)) {
            first.emplace(seen[i].rank, *std::move(found));
            lowest = s;
          }
        }
        // A log equal to one that kept at least as much is equal to all; but counts of an all_to_all_v differ pair by
        // pair.
        if (seen[j].log->first() <= seen[i].log->first() && !HasCountsByRank(*seen[i].log)) break;
      }
    }
  }
  return first;
}

// Finds a rank that has made more calls than another although no calls differ. Used after ranks were told that the run
// was over.
std::optional<std::pair<int, std::string>> FindExtra(const Witnesses& witnesses) {
  const auto shorter = [](const Seen& a, const Seen& b) { return End(*a.log) < End(*b.log); };
  for (const auto& [group, seen] : LogsOf(witnesses)) {
    const auto [least, most] = std::minmax_element(seen.begin(), seen.end(), shorter);
    const uint64_t next = End(*least->log);
    const Record* extra = At(*most->log, next);
    if (extra == nullptr) continue;
    return std::pair(least->rank, host::MismatchText(most->log->label(), Place(*extra, next), most->rank,
                                                     ToString(*extra), least->rank, "nothing more"));
  }
  return std::nullopt;
}

// ---- Which rank is doing what ----

std::string Doing(const Witnesses& witnesses, int rank) {
  const Witness& w = witnesses[static_cast<size_t>(rank)];
  if (w.lost) return StrCat("rank ", rank, ", whose process ", w.how);
  if (w.answer) return w.answer->doing();
  return StrCat("rank ", rank, ", which does not answer",
                w.last_doing.empty() ? "" : StrCat(" (last known state: ", w.last_doing, ")"));
}

template <class Include>
std::string List(const Witnesses& witnesses, Include include) {
  constexpr int kMost = 8;
  std::string text;
  int told = 0, more = 0;
  for (int r = 0; r < static_cast<int>(witnesses.size()); ++r) {
    if (!witnesses[static_cast<size_t>(r)].takes_part || !include(r)) continue;
    if (told++ < kMost)
      StrAppend(&text, text.empty() ? "" : "; ", Doing(witnesses, r));
    else
      ++more;
  }
  return more > 0 ? StrCat(text, "; and ", more, " more ranks") : text;
}

std::string Lost(const Witnesses& witnesses, int rank) {
  const Witness& w = witnesses[static_cast<size_t>(rank)];
  std::string text = StrCat("lost rank ", rank, ": its process (", w.process, ") ", w.how);
  if (!w.last_doing.empty()) StrAppend(&text, "; last known state: ", w.last_doing);
  const std::string others = List(witnesses, [&](int r) { return r != rank; });
  return others.empty() ? text : StrCat(text, ". The others: ", others);
}

// Of the ranks that a call waits for, those that are not in it.
std::string WaitedFor(const Witnesses& witnesses, const Call& call) {
  auto is_in_it = [&](int r) {
    const Witness& w = witnesses[static_cast<size_t>(r)];
    if (!w.answer || !call.collective()) return false;
    return std::any_of(w.answer->now().begin(), w.answer->now().end(), [&](const Call& c) {
      return c.group() == call.group() && c.sequence() == call.sequence() && c.collective();
    });
  };
  auto awaited = [&](int r) {
    return std::find(call.awaited().begin(), call.awaited().end(), r) != call.awaited().end();
  };
  std::string missing = List(witnesses, [&](int r) { return awaited(r) && !is_in_it(r); });
  return missing.empty() ? List(witnesses, awaited) : missing;
}

}  // namespace

Verdict VerdictOf(absl::StatusCode code, std::string message) {
  Verdict v;
  v.set_code(static_cast<int>(code));
  v.set_message(std::move(message));
  return v;
}

Verdict Decide(const Witnesses& witnesses, const Accusation& accusation, double timeout_s) {
  if (auto mismatch = FindMismatch(witnesses)) {
    return Failed(Kind::kCollectiveMismatch, mismatch->first, std::move(mismatch->second));
  }
  for (int r = 0; r < static_cast<int>(witnesses.size()); ++r) {
    if (!witnesses[static_cast<size_t>(r)].takes_part || !witnesses[static_cast<size_t>(r)].lost) continue;
    Verdict v = Failed(Kind::kPeerLost, r, Lost(witnesses, r));
    v.set_lost(true);
    return v;
  }
  if (!accusation.trouble) {
    if (auto extra = FindExtra(witnesses))
      return Failed(Kind::kCollectiveMismatch, extra->first, std::move(extra->second));
    return Failed(Kind::kCollectiveMismatch, accusation.rank,
                  StrCat("collective mismatch: ranks have called different collectives, too long ago for the call log "
                         "to name them; found by rank ",
                         accusation.rank));
  }
  const Trouble& trouble = *accusation.trouble;
  const auto kind = static_cast<Kind>(trouble.kind());
  if (kind != Kind::kTimedOut || !trouble.has_waiting()) return Failed(kind, accusation.rank, trouble.message());
  return Failed(kind, accusation.rank,
                StrCat("rank ", accusation.rank, ": ", trouble.waiting().text(), " has waited ", timeout_s,
                       " s (fabric.timeout_s) for ", trouble.waiting().any() ? "any of " : "",
                       WaitedFor(witnesses, trouble.waiting())));
}

}  // namespace twofold::control
