// Many damaged files of tokens: each becomes a dataset whose every sample can be read, or a message.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "core/data/token_dataset.h"
#include "tests/fuzz/allocations.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/mutate.h"

namespace twofold {
namespace tokens_fuzz {

// As llm.c writes it.
std::string File(int32_t tokens) {
  std::string text(1024 + 2 * static_cast<size_t>(tokens), '\0');
  const int32_t header[] = {20240520, 1, tokens};
  std::memcpy(text.data(), header, sizeof(header));
  for (int32_t i = 0; i < tokens; ++i) text[1024 + 2 * static_cast<size_t>(i)] = static_cast<char>(i * 7 % 100);
  return text;
}

TEST(TokensFuzz, EveryAnswerIsADatasetOrAMessage) {
  const std::vector<std::string> good = {File(9), File(40), File(200)};
  test::MemoryFile file;
  const std::string path = file.path();
  test::Mutator mutator(TestSeed(), {.hot = 16, .numbers = false});
  constexpr int64_t kSequence = 8, kVocab = 128;
  int accepted = 0;
  for (int i = 0; i < Mutants(); ++i) {
    const std::string text = mutator.Damage(good[static_cast<size_t>(i) % good.size()]);
    file.Write(text);
    const test::Allocations allocations;
    const absl::StatusOr<std::unique_ptr<Dataset>> data = MakeTokenDataset(path, kSequence, kVocab);
    ASSERT_LE(allocations.peak(), 8192 + static_cast<int64_t>(text.size())) << "mutant " << i;
    if (!data.ok()) {
      ASSERT_EQ(data.status().code(), absl::StatusCode::kInvalidArgument);
      ASSERT_EQ(data.status().message().find(path), 0u) << data.status();
      continue;
    }
    ++accepted;
    std::vector<int32_t> input(kSequence), target(kSequence);
    for (int64_t s = 0; s < (*data)->size(); ++s) {
      (*data)->Read(s, std::as_writable_bytes(std::span(input)), std::as_writable_bytes(std::span(target)));
      for (const auto& ids : {input, target})
        for (int32_t id : ids) ASSERT_TRUE(id >= 0 && id < kVocab) << "mutant " << i;
    }
  }
  EXPECT_GT(accepted, Mutants() / 50) << "the mutations no longer leave readable files";
  EXPECT_LT(accepted, Mutants() / 2);
}

}  // namespace tokens_fuzz
}  // namespace twofold
