// The promises, whatever a spec asks for: a run trains as one process does, a simulated run with data gives its bits,
// and one without, like `twofold memory`, predicts its memory to the byte. One table of options (promises_rows.h); rows
// of it such that any two options that fit together meet in one. With --full, whole products of those that meddle most
// with each other.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/base/strings.h"
#include "tests/integration/pairwise.h"
#include "tests/integration/promises_rows.h"
#include "tests/integration/replayed.h"
#include "tests/integration/saved_parameters.h"
#include "tests/scratch_folder.h"
#include "tests/seed.h"

namespace twofold {
namespace promises_test {

using namespace promises;

// ---- The promises ----

const report::RankRecord& Alone(const Row& row, int steps) {
  static auto& known = *new std::map<std::string, report::RankRecord>;
  const std::string text = Text(OneProcess(row), LengthOf(row, steps));
  const auto [it, is_new] = known.try_emplace(text);
  if (is_new) it->second = test::RunText(text + test::kInMemory).at(0);
  return it->second;
}

// f32 to 1e-5, half precision to 1 %, bf16 to 2 %.
double Tolerance(const Row& row) {
  return Spec(row).Is(kPrecision, kF32) ? 1e-5 : Spec(row).Is(kPrecision, kF16) ? 1e-2 : 2e-2;
}

void ExpectTrainedAsAlone(const Row& row, const std::vector<report::RankRecord>& ranks, int steps, double tolerance) {
  const report::RankRecord& alone = Alone(row, steps);
  const std::vector<double> losses = test::Losses(ranks[0]), expected = test::Losses(alone);
  ASSERT_EQ(losses.size(), static_cast<size_t>(steps));
  ASSERT_EQ(expected.size(), losses.size());
  for (size_t i = 0; i < losses.size(); ++i)
    EXPECT_NEAR(losses[i], expected[i], tolerance * expected[i]) << "step " << i;
  EXPECT_NE(losses.front(), losses.back());
  ASSERT_EQ(ranks[0].validations_size(), alone.validations_size());
  for (int v = 0; v < alone.validations_size(); ++v) {
    const double loss = alone.validations(v).loss();
    for (const report::RankRecord& rank : ranks) EXPECT_NEAR(rank.validations(v).loss(), loss, tolerance * loss);
  }
}

constexpr char kSgdInF64[] = "optimizer { sgd { lr: 0.1 momentum: 0.9 } } precision { parameter: F64 } ";
// An update so large that nothing of the initial parameters is left: what is saved is the gradient, times -2^40.
constexpr char kGradientsAlone[] = "optimizer { sgd { lr: 1099511627776 } } ";

test::Parameters Saved(const Row& row, const Length& length, const std::string& optimizer) {
  const std::string folder = test::ScratchFolder("promises");
  test::RunText(Text(row, length, optimizer + test::SaveAtTheEnd(folder)) + test::kInMemory);
  test::Parameters parameters = test::SavedParameters(folder);
  std::filesystem::remove_all(folder);
  return parameters;
}
void ExpectParametersAsAlone(const Row& row, int steps, const std::string& optimizer, double tolerance,
                             const std::string& what) {
  const Length length = LengthOf(row, steps);
  test::ExpectNear(Saved(row, length, optimizer), Saved(OneProcess(row), length, optimizer), tolerance, what);
}

struct Case {
  Row row;
};
void PrintTo(const Case& c, std::ostream* out) { *out << Text(c.row, LengthOf(c.row)); }

void ExpectPromisesKept(const Row& row) {
  const Spec s(row);
  const std::string text = Text(row, LengthOf(row));
  const auto measured = test::RunText(text + test::kInMemory);
  ASSERT_EQ(static_cast<int64_t>(measured.size()), s.Ranks());
  ExpectTrainedAsAlone(row, measured, kSteps, Tolerance(row));
  if (s.Is(kPrecision, kF32) && s.Ranks() > 1) {
    ExpectParametersAsAlone(row, 1, kGradientsAlone, 1e-5, "gradients of the first step");
    // In F64: gradients are added in another order, and routers and batch norms of a few pixels magnify rounding from
    // step to step. After 20 steps of F32 the parameters of a mixture of experts differ by 4e-3. In F64 those of a
    // pipeline with synchronised batch norms of two pixels differ by 2e-16 after a step and by 1e-7 after 20.
    if (Full()) ExpectParametersAsAlone(row, 20, kSgdInF64, 1e-6, "parameters");
  }
  test::ExpectPromised(text, measured);
}

class Promises : public ::testing::TestWithParam<Case> {};

TEST_P(Promises, AreKept) { ExpectPromisesKept(GetParam().row); }

// Linear layers split by features and in stages, whose masks must be those of the whole, and stages that share
// statistics: in F32, where gradients show what losses of half precision would hide.
TEST(SplitLayers, KeepThePromisesInF32) {
  for (const Chosen& chosen :
       {Chosen{{kModel, kMlp}, {kDropout, 1}, {kTp, 1}}, Chosen{{kModel, kMlp}, {kDropout, 2}, {kTp, 3}, {kPp, 9}},
        Chosen{{kModel, kMlp}, {kDropout, 1}, {kDp, 1}, {kTp, 1}, {kPp, 7}, {kParts, 1}, {kMessages, 1}},
        Chosen{{kModel, kMlp}, {kTp, 1}, {kPp, 5}, {kParts, 1}, {kClip, 1}, {kValidation, 1}},
        Chosen{{kModel, kSyncCnn}, {kDp, 1}, {kPp, 10}, {kParts, 1}, {kValidation, 1}}}) {
    const Row row = RowOf(chosen);
    SCOPED_TRACE(Name(row));
    ExpectPromisesKept(row);
  }
}

// Rows that once broke a promise: some shards' gradients are summed and others' are not, while they wait to be
// offloaded; and the last replica validates fewer samples than the others.
TEST(FoundRows, KeepThePromises) {
  for (const Chosen& chosen :
       {Chosen{{kModel, kMoe},
               {kDp, 1},
               {kTp, 3},
               {kEp, 1},
               {kSharding, kZero3},
               {kGathering, 4},
               {kReduction, kEvery},
               {kUnits, 2},
               {kRecompute, kSelective},
               {kParts, 1},
               {kOffload, kAllOfIt}},
        Chosen{{kModel, kVaried}, {kDp, 3}, {kTp, 2}, {kSharding, kHybrid}, {kGathering, 5}, {kValidation, 1}}}) {
    const Row row = RowOf(chosen);
    SCOPED_TRACE(Name(row));
    ExpectPromisesKept(row);
  }
}

// Over more steps rounding adds up, and what was learned shows.
TEST(LongPromises, AreKeptWhileItLearns) {
  for (const Chosen& chosen : {Chosen{{kModel, kLlama}, {kDp, 1}, {kSharding, kZero3}, {kParts, 1}, {kClip, 1}},
                               Chosen{{kModel, kGpt}, {kTp, 2}, {kPp, 3}, {kParts, 2}, {kOptimizer, 1}},
                               Chosen{{kModel, kMoe}, {kDp, 1}, {kEp, 1}, {kCp, 1}, {kParts, 1}, {kOptimizer, 1}}}) {
    const Row row = RowOf(chosen);
    SCOPED_TRACE(Name(row));
    constexpr int kMany = 30;
    const auto ranks = test::RunText(Text(row, LengthOf(row, kMany)) + test::kInMemory);
    ExpectTrainedAsAlone(row, ranks, kMany, 1e-4);
    EXPECT_LT(ranks.at(0).steps(kMany - 1).loss(), 0.97 * ranks[0].steps(0).loss());
  }
}

// ---- Rows ----

std::vector<Case> Cases(const std::vector<Row>& rows) {
  std::vector<Case> cases;
  for (const Row& row : rows) cases.push_back({row});
  return cases;
}
std::vector<Case> Pairs() { return Cases(test::PairwiseRows(TheFactors())); }

// Those with FP8: every option meets both scalings.
std::vector<Case> PairsWithFp8() {
  std::vector<Row> rows = test::PairwiseRows(AllFactors());
  std::erase_if(rows, [](const Row& row) { return !Spec(row).Has(kPrecision, "FP8"); });
  return Cases(rows);
}

// Whole products: of what is within a replica and its micro-batches, of sharding with what changes memory, and of
// meshes with one more option each.
std::vector<Case> Products() {
  if (!Full()) return {};
  const test::Factors factors = TheFactors();
  std::vector<Row> rows;
  const auto add = [&](const Row& base, const std::vector<size_t>& varied) {
    for (Row& row : test::ProductRows(factors, base, varied)) rows.push_back(std::move(row));
  };
  const Row usual(kFactors, 0);
  add(usual, {kModel, kAttention, kDropout, kDp, kPrecision, kParts});
  for (const int precision : {0, 3}) {
    Row unfused = usual;
    unfused[kAttention] = 1, unfused[kPrecision] = precision;
    add(unfused, {kModel, kDp, kSharding, kRecompute, kParts, kClip});
  }
  Row meshes = usual;
  meshes[kParts] = 2, meshes[kOptimizer] = 1;
  for (const Factor option : {kModel, kClip, kRecompute, kPrecision, kDropout, kSharding, kOrder, kMessages})
    add(meshes, {kDp, kTp, kCp, kPp, kEp, option});
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return Cases(rows);
}

const auto kName = [](const auto& info) { return Name(info.param.row); };
INSTANTIATE_TEST_SUITE_P(Pairs, Promises, ::testing::ValuesIn(Pairs()), kName);
INSTANTIATE_TEST_SUITE_P(Fp8, Promises, ::testing::ValuesIn(PairsWithFp8()), kName);
INSTANTIATE_TEST_SUITE_P(Full, Promises, ::testing::ValuesIn(Products()), kName);

TEST(PromisesTable, HoldsEveryPairThatFits) {
  const test::Factors factors = TheFactors();
  const std::vector<Case> cases = Pairs();
  for (const Case& c : cases) EXPECT_TRUE(Fits(c.row)) << Name(c.row);
  for (const test::ChoicePair& pair : test::PairsThatFit(factors)) {
    EXPECT_TRUE(std::any_of(cases.begin(), cases.end(), [&](const Case& c) { return pair.In(c.row); }))
        << Table()[pair.first].choices[static_cast<size_t>(pair.a)].name << " with "
        << Table()[pair.second].choices[static_cast<size_t>(pair.b)].name;
  }
  for (size_t f = 0; f < kFactors; ++f) {
    for (int choice = 0; choice < factors.choices[f]; ++choice) {
      EXPECT_TRUE(std::any_of(cases.begin(), cases.end(), [&](const Case& c) { return c.row[f] == choice; }))
          << Table()[f].choices[static_cast<size_t>(choice)].name << " fits with nothing";
    }
  }
}

}  // namespace promises_test
}  // namespace twofold
