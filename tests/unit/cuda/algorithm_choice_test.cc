#include "kernels/cuda/algorithm_choice.h"

#include "gtest/gtest.h"

namespace twofold::cuda {
namespace algorithm_choice_test {

const void* Address(uintptr_t a) { return reinterpret_cast<const void*>(a); }

TEST(AlignmentOf, IsTheLargestPowerOfTwoThatDivides) {
  EXPECT_EQ(AlignmentOf(Address(512)), 16u);
  EXPECT_EQ(AlignmentOf(Address(512 + 16)), 16u);
  EXPECT_EQ(AlignmentOf(Address(512 + 8)), 8u);
  EXPECT_EQ(AlignmentOf(Address(512 + 12)), 4u);
  EXPECT_EQ(AlignmentOf(Address(512 + 2)), 2u);
  EXPECT_EQ(AlignmentOf(Address(512 + 7)), 1u);
}

LibraryProduct Product(int64_t m, int64_t n, int64_t k) {
  return {.a = {DType::kBF16, m, k, m}, .b = {DType::kBF16, k, n, k}, .d = {DType::kF32, m, n, m}};
}

TEST(KeyOf, TellsShapesTypesAlignmentsAndWorkspacesApart) {
  const AlgorithmKey key = KeyOf(Product(3, 4, 5), Address(512), Address(1024), Address(1536), 100);
  EXPECT_EQ(key, KeyOf(Product(3, 4, 5), Address(512 + 16), Address(0), Address(32), 100));
  EXPECT_NE(key, KeyOf(Product(3, 4, 6), Address(512), Address(1024), Address(1536), 100));
  EXPECT_NE(key, KeyOf(Product(3, 4, 5), Address(514), Address(1024), Address(1536), 100));
  EXPECT_NE(key, KeyOf(Product(3, 4, 5), Address(512), Address(1026), Address(1536), 100));
  EXPECT_NE(key, KeyOf(Product(3, 4, 5), Address(512), Address(1024), Address(1540), 100));
  EXPECT_NE(key, KeyOf(Product(3, 4, 5), Address(512), Address(1024), Address(1536), 101));
  for (const auto& change : std::vector<void (*)(LibraryProduct&)>{
           [](LibraryProduct& p) { p.a.type = DType::kF16; }, [](LibraryProduct& p) { p.d.type = DType::kBF16; },
           [](LibraryProduct& p) { p.b.leading = 9; }, [](LibraryProduct& p) { p.a.batch_stride = 1; },
           [](LibraryProduct& p) { p.batch = 2; }, [](LibraryProduct& p) { p.transpose_a = true; },
           [](LibraryProduct& p) { p.transpose_b = true; }, [](LibraryProduct& p) { p.bias = true; }}) {
    LibraryProduct other = Product(3, 4, 5);
    change(other);
    EXPECT_NE(key, KeyOf(other, Address(512), Address(1024), Address(1536), 100));
  }
}

TEST(KeyOf, IsOneWhateverTheFactors) {
  LibraryProduct scaled = Product(3, 4, 5);
  scaled.alpha = 0.5, scaled.beta = 1;
  EXPECT_EQ(KeyOf(Product(3, 4, 5), Address(0), Address(0), Address(0), 1),
            KeyOf(scaled, Address(0), Address(0), Address(0), 1));
}

TEST(Choose, TakesTheFirstThatIsDeterministicAndFits) {
  const std::vector<Candidate> candidates = {
      {.usable = false, .workspace_bytes = 0, .splits = 1, .added_wide = false},
      {.usable = true, .workspace_bytes = 101, .splits = 1, .added_wide = false},
      {.usable = true, .workspace_bytes = 0, .splits = 4, .added_wide = false},
      {.usable = true, .workspace_bytes = 100, .splits = 4, .added_wide = true, .seconds = 2},
      {.usable = true, .workspace_bytes = 0, .splits = 1, .added_wide = false, .seconds = 1}};
  EXPECT_EQ(Choose(candidates, 100, false), 3u);
  EXPECT_EQ(Choose(candidates, 99, false), 4u);
  EXPECT_EQ(Choose(candidates, 101, false), 1u);
}

TEST(Choose, TakesTheFastestOfThoseWhereTheyAreTimed) {
  const std::vector<Candidate> candidates = {
      {.usable = false, .workspace_bytes = 0, .splits = 1, .added_wide = false, .seconds = 0},
      {.usable = true, .workspace_bytes = 0, .splits = 1, .added_wide = false, .seconds = 3},
      {.usable = true, .workspace_bytes = 0, .splits = 1, .added_wide = false, .seconds = 2},
      {.usable = true, .workspace_bytes = 0, .splits = 1, .added_wide = false, .seconds = 2}};
  EXPECT_EQ(Choose(candidates, 0, true), 2u);
  EXPECT_EQ(Choose(candidates, 0, false), 1u);
}

TEST(Choose, SaysWhereThereIsNone) {
  EXPECT_EQ(Choose({}, 0, true), 0u);
  const std::vector<Candidate> candidates = {{.usable = true, .workspace_bytes = 1, .splits = 1, .added_wide = false}};
  EXPECT_EQ(Choose(candidates, 0, true), 1u);
}

// A heuristic that knows these algorithms, best first, and answers as cuBLASLt's does.
struct Heuristic {
  std::vector<Candidate> knows, answer;
  int queries = 0;
  std::span<const Candidate> operator()(const HeuristicQuery& query) {
    ++queries;
    answer.clear();
    for (const Candidate& c : knows) {
      if (static_cast<int>(answer.size()) < query.most && (query.splits || c.splits == 1)) answer.push_back(c);
    }
    return answer;
  }
};

TEST(AskUntilAcceptable, AsksOnceIfAnAnswerWillDo) {
  Heuristic heuristic{.knows = {{.usable = true, .workspace_bytes = 0, .splits = 4, .added_wide = true}}};
  EXPECT_TRUE(AskUntilAcceptable(100, heuristic));
  EXPECT_EQ(heuristic.queries, 1);
  EXPECT_EQ(heuristic.answer.size(), 1u);
}

TEST(AskUntilAcceptable, FindsAnAlgorithmWithoutSplitsBehindManyThatAreRefused) {
  Heuristic heuristic;
  for (int splits = 2; splits < 30; ++splits)
    heuristic.knows.push_back({.usable = true, .workspace_bytes = 0, .splits = splits, .added_wide = false});
  heuristic.knows.push_back({.usable = true, .workspace_bytes = 200, .splits = 1, .added_wide = false});
  heuristic.knows.push_back({.usable = true, .workspace_bytes = 100, .splits = 1, .added_wide = false});
  EXPECT_TRUE(AskUntilAcceptable(100, heuristic));
  EXPECT_EQ(heuristic.queries, 2);
  EXPECT_EQ(Choose(heuristic.answer, 100, false), 1u);
}

TEST(AskUntilAcceptable, SaysSoIfNoneWillEverDo) {
  Heuristic heuristic{.knows = {{.usable = true, .workspace_bytes = 0, .splits = 4, .added_wide = false}}};
  EXPECT_FALSE(AskUntilAcceptable(100, heuristic));
  EXPECT_TRUE(heuristic.answer.empty());
}

}  // namespace algorithm_choice_test
}  // namespace twofold::cuda
