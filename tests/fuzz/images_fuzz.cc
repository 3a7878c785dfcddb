// Many damaged files of images each, IDX and CIFAR-10: each becomes a dataset whose every sample can be read,
// or a message.
#include <gtest/gtest.h>

#include <vector>

#include "core/data/image_files.h"
#include "tests/fuzz/allocations.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/mutate.h"

namespace twofold {
namespace images_fuzz {

constexpr int64_t kClasses = 10;

// Every sample is read; every label is one of the model's.
void ReadAll(const Dataset& data, int mutant) {
  std::vector<std::byte> input(static_cast<size_t>(data.input().bytes())), target(1);
  for (int64_t i = 0; i < data.size(); ++i) {
    data.Read(i, input, target);
    ASSERT_LT(std::to_integer<int>(target[0]), kClasses) << "mutant " << mutant;
  }
}

void CheckRefusal(const absl::Status& status, const std::vector<std::string>& paths) {
  ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  bool named = false;
  for (const std::string& path : paths) named = named || status.message().find(path) == 0;
  ASSERT_TRUE(named) << status;
}

std::string Idx(uint32_t magic, const std::vector<uint32_t>& sizes) {
  std::string text;
  const auto put = [&text](uint32_t n) {
    for (int shift = 24; shift >= 0; shift -= 8) text.push_back(static_cast<char>(n >> shift));
  };
  put(magic);
  size_t elements = 1;
  for (uint32_t size : sizes) put(size), elements *= size;
  for (size_t i = 0; i < elements; ++i) text.push_back(static_cast<char>(i * 3 % kClasses));
  return text;
}

TEST(IdxFuzz, EveryAnswerIsADatasetOrAMessage) {
  test::MemoryFile images, labels;
  const std::string good_images[] = {Idx(2051, {1, 4, 5}), Idx(2051, {9, 4, 5}), Idx(2051, {3, 4, 5})};
  const std::string good_labels[] = {Idx(2049, {1}), Idx(2049, {9}), Idx(2049, {3})};
  test::Mutator mutator(TestSeed(), {.hot = 16, .numbers = false});
  int accepted = 0;
  for (int i = 0; i < Mutants(); ++i) {
    const size_t which = static_cast<size_t>(i) % 3;
    const bool in_labels = i / 3 % 2 == 0;  // one of the two is damaged
    const std::string one = in_labels ? good_images[which] : mutator.Damage(good_images[which]);
    const std::string two = in_labels ? mutator.Damage(good_labels[which]) : good_labels[which];
    images.Write(one);
    labels.Write(two);
    const test::Allocations allocations;
    const auto data = MakeIdxDataset(images.path(), labels.path(), {Shape{4, 5, 1}, kClasses});
    ASSERT_LE(allocations.peak(), 8192 + static_cast<int64_t>(one.size() + two.size())) << "mutant " << i;
    if (!data.ok()) {
      ASSERT_NO_FATAL_FAILURE(CheckRefusal(data.status(), {images.path(), labels.path()})) << "mutant " << i;
      continue;
    }
    ++accepted;
    ASSERT_NO_FATAL_FAILURE(ReadAll(**data, i));
  }
  EXPECT_GT(accepted, Mutants() / 50) << "the mutations no longer leave readable files";
  EXPECT_LT(accepted, Mutants() * 3 / 4);
}

TEST(Cifar10Fuzz, EveryAnswerIsADatasetOrAMessage) {
  test::MemoryFile file;
  std::vector<std::string> good;
  for (const size_t records : {1, 2, 3}) {
    std::string text(records * 3073, '\7');
    for (size_t r = 0; r < records; ++r) text[r * 3073] = static_cast<char>(r * 4);
    good.push_back(text);
  }
  test::Mutator mutator(TestSeed(), {.hot = 4, .numbers = false});
  int accepted = 0;
  for (int i = 0; i < Mutants(); ++i) {
    const std::string text = mutator.Damage(good[static_cast<size_t>(i) % good.size()]);
    file.Write(text);
    const test::Allocations allocations;
    const auto data = MakeCifar10Dataset(file.path(), false, {Shape{32, 32, 3}, kClasses});
    ASSERT_LE(allocations.peak(), 8192 + static_cast<int64_t>(text.size())) << "mutant " << i;
    if (!data.ok()) {
      ASSERT_NO_FATAL_FAILURE(CheckRefusal(data.status(), {file.path()})) << "mutant " << i;
      continue;
    }
    ++accepted;
    ASSERT_NO_FATAL_FAILURE(ReadAll(**data, i));
  }
  EXPECT_GT(accepted, Mutants() / 50) << "the mutations no longer leave readable files";
  EXPECT_LT(accepted, Mutants() * 3 / 4);
}

}  // namespace images_fuzz
}  // namespace twofold
