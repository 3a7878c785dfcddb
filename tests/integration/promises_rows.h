// The table of options that the promises are tested with, which of them fit together, and the spec of a row of choices.
// A new option is a line of the table in promises_rows.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/integration/pairwise.h"

namespace twofold::promises {

using test::kOpen;
using test::Row;

enum Factor : size_t {
  kModel,
  kAttention,
  kDropout,
  kDp,
  kTp,
  kCp,
  kPp,
  kEp,
  kOrder,
  kMessages,
  kSharding,
  kGathering,
  kReduction,
  kUnits,
  kOverlap,
  kPrecision,
  kRecompute,
  kParts,
  kClip,
  kOptimizer,
  kOffload,
  kValidation,
  kFactors
};

struct Choice {
  const char* name;  // in the test's; the usual choice has none
  int64_t number;    // of ranks or micro-batches; for the others a number of its own, by which it is known below
  const char* text;  // of train or parallel
};

// Numbers of choices that are told apart below.
enum { kGpt, kLlama, kVaried, kMoe, kMlp, kCnn, kSyncCnn };
enum { kUsual, kUnfused };
enum { kNone, kDrawn, kStored };
enum { kNoShard, kZero1, kZero2, kZero3, kHybrid };
enum { kAhead = 1, kKept };  // options of gathering that need one ahead; and that do not
enum { kEvery = 1, kOnce };
enum { kUnitsByHand = 3, kNested };
enum { kF32, kBf16, kF16 };
inline constexpr int kFp8Choices = 2;  // of precision; the last ones
enum { kSelective = 3 };
enum { kOptimizerAlone = 1, kAllOfIt };
enum { kInterleaved = 2, kDeep };  // Deep: over 8 layers

struct Column {
  enum { kOfModel, kOfTrain, kOfParallel } place;
  std::vector<Choice> choices;
};

const std::vector<Column>& Table();  // by Factor

// A row of which some is open: nothing is known of that, and Ranks() counts it as one.
class Spec {
 public:
  explicit Spec(const Row& row) : row_(row) {}
  bool open(Factor f) const { return row_[f] == kOpen; }
  const Choice& of(Factor f) const { return Table()[f].choices[static_cast<size_t>(row_[f])]; }
  bool Is(Factor f, int64_t number) const { return !open(f) && of(f).number == number; }
  bool IsNot(Factor f, int64_t number) const { return !open(f) && of(f).number != number; }
  bool Has(Factor f, std::string_view word) const {
    return !open(f) && std::string_view(of(f).text).find(word) != std::string_view::npos;
  }
  bool Unusual(Factor f) const { return row_[f] > 0; }
  int64_t stages() const { return open(kPp) || !Unusual(kPp) ? 1 : Has(kPp, "pp: 4") ? 4 : 2; }
  bool Interleaves() const { return Is(kPp, kInterleaved) || Is(kPp, kDeep); }
  bool HasImages() const { return Is(kModel, kCnn) || Is(kModel, kSyncCnn); }
  int64_t layers() const { return Is(kPp, kDeep) ? 8 : 4; }
  int64_t Number(Factor f) const { return open(f) ? 1 : of(f).number; }
  int64_t Ranks() const { return Number(kDp) * Number(kTp) * Number(kCp) * stages(); }

 private:
  const Row& row_;
};

bool Fits(const Row& row);  // false if the choices so far contradict each other
test::Factors AllFactors();
test::Factors TheFactors();  // without FP8

using Chosen = std::vector<std::pair<Factor, int>>;  // what is not usual
Row RowOf(const Chosen& chosen);
std::string Name(const Row& row);  // of the test

inline constexpr int kSteps = 6, kMicroBatch = 2;

struct Length {
  int steps = kSteps;
  int64_t layers, samples;  // of the model, and of a step
};
Length LengthOf(const Row& row, int steps = kSteps);

// The row as a spec. `optimizer`: in place of the row's, and what else `train` is told.
std::string Text(const Row& row, const Length& length, const std::string& optimizer = "");

// The same training without all that must not change it. What is of a micro-batch's place among the replicas - which
// samples a mask drops, whose statistics norm them - keeps its replicas.
Row OneProcess(const Row& row);

}  // namespace twofold::promises
