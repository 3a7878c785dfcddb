#include "core/data/text_dataset.h"

#include <gmock/gmock.h>

#include "tests/unit/data/scratch_files.h"

namespace twofold {
namespace text_dataset_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

class TextDatasetTest : public ScratchFiles {};

std::string Letters(const std::vector<uint8_t>& ids) { return std::string(ids.begin(), ids.end()); }

TEST_F(TextDatasetTest, WindowsFollowOneAnotherAndTargetsAreOneByteLater) {
  const auto dataset = MakeTextDataset(Write("text", "abcdefghij"), 3);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->size(), 3);
  EXPECT_EQ((*dataset)->input().dtype, DType::kU8);
  EXPECT_EQ((*dataset)->input().shape, Shape{3});
  const char* inputs[] = {"abc", "def", "ghi"};
  const char* targets[] = {"bcd", "efg", "hij"};
  for (int i = 0; i < 3; ++i) {
    const Sample<uint8_t> sample = ReadSample<uint8_t>(**dataset, i);
    EXPECT_EQ(Letters(sample.input), inputs[i]);
    EXPECT_EQ(Letters(sample.target), targets[i]);
  }
}

TEST_F(TextDatasetTest, TheLastTargetNeedsItsByte) {
  EXPECT_EQ((*MakeTextDataset(Write("nine", "abcdefghi"), 3))->size(), 2);
  EXPECT_EQ((*MakeTextDataset(Write("four", "abcd"), 3))->size(), 1);
}

TEST_F(TextDatasetTest, BytesAreNotCharacters) {
  const auto dataset = MakeTextDataset(Write("bytes", std::string("\xff\x00\x80\n", 4)), 3);
  ASSERT_TRUE(dataset.ok());
  const std::vector<uint8_t> expected = {0xff, 0x00, 0x80};
  EXPECT_EQ(ReadSample<uint8_t>(**dataset, 0).input, expected);
}

TEST_F(TextDatasetTest, FoldersAreReadInOrderWithoutSymbolicLinks) {
  Write("folder/b", "BB");
  Write("folder/a/z", "AZ");
  Write("folder/c", "C!");
  Write("outside", "no");
  std::filesystem::create_symlink(Path("outside"), Path("folder/aa"));
  std::filesystem::create_directory_symlink(folder_, Path("folder/loop"));
  const auto dataset = MakeTextDataset(Path("folder"), 5);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(Letters(ReadSample<uint8_t>(**dataset, 0).input), "AZBBC");
  EXPECT_EQ(Letters(ReadSample<uint8_t>(**dataset, 0).target), "ZBBC!");
  EXPECT_THAT((*dataset)->Describe(), HasSubstr("3 files, 6 bytes, 1 samples of 5"));
}

TEST_F(TextDatasetTest, TheDefaultIsTheSystemsLicenceTexts) {
  const auto dataset = MakeTextDataset("", 128);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_GT((*dataset)->size(), 500);
  EXPECT_THAT((*dataset)->Describe(), HasSubstr(std::string(kDefaultTextPath)));
}

TEST_F(TextDatasetTest, RefusesWhatIsMissingOrTooShort) {
  const auto message = [](const std::string& path) {
    return std::string(MakeTextDataset(path, 16).status().message());
  };
  EXPECT_THAT(message(Path("none")),
              AllOf(HasSubstr(Path("none")), HasSubstr("does not exist"), HasSubstr("give a file")));
  EXPECT_THAT(message(Write("short", std::string(16, 'x'))),
              AllOf(HasSubstr(Path("short")), HasSubstr("16 bytes"), HasSubstr("needs 17")));
  EXPECT_THAT(message("/dev/null"), HasSubstr("neither a file nor a folder"));
  EXPECT_TRUE(MakeTextDataset(Write("enough", std::string(17, 'x')), 16).ok());
}

}  // namespace text_dataset_test
}  // namespace twofold
