#include "core/data/token_dataset.h"

#include <gmock/gmock.h>

#include "tests/unit/data/scratch_files.h"

namespace twofold {
namespace token_dataset_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TokenDatasetTest : public ScratchFiles {
 protected:
  // A token file; what the header states may differ from what follows it.
  static std::string File(const std::vector<uint16_t>& tokens, int32_t magic = 20240520, int32_t version = 1,
                          int32_t count = -1) {
    std::vector<int32_t> header(256, 0);
    header[0] = magic;
    header[1] = version;
    header[2] = count < 0 ? static_cast<int32_t>(tokens.size()) : count;
    return std::string(reinterpret_cast<const char*>(header.data()), 1024) +
           std::string(reinterpret_cast<const char*>(tokens.data()), tokens.size() * 2);
  }
  std::string Refused(const std::string& name, const std::string& content, int64_t sequence = 2, int64_t vocab = 0) {
    const absl::Status status = MakeTokenDataset(Write(name, content), sequence, vocab).status();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr(Path(name) + ": "));
    return std::string(status.message());
  }
};

TEST_F(TokenDatasetTest, ReadsWindowsOfTokens) {
  const auto dataset = MakeTokenDataset(Write("t.bin", File({1, 50256, 3, 65535, 5, 6})), 2);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->size(), 2);
  EXPECT_EQ((*dataset)->input().dtype, DType::kI32);
  const Sample<int32_t> sample = ReadSample<int32_t>(**dataset, 1);
  EXPECT_THAT(sample.input, ElementsAre(3, 65535));
  EXPECT_THAT(sample.target, ElementsAre(65535, 5));
  EXPECT_THAT((*dataset)->Describe(), HasSubstr("6 tokens, 2 samples of 2"));
}

TEST_F(TokenDatasetTest, AcceptsTokensBelowTheVocabulary) {
  EXPECT_TRUE(MakeTokenDataset(Write("t.bin", File({1, 2, 9})), 2, 10).ok());
  EXPECT_TRUE(MakeTokenDataset(Write("t.bin", File({1, 2, 65535})), 2, 65536).ok());
}

TEST_F(TokenDatasetTest, RefusesWithOffsetAndRemedy) {
  EXPECT_THAT(Refused("magic", File({1, 2, 3}, 20240801)),
              AllOf(HasSubstr("at byte 0"), HasSubstr("20240801"), HasSubstr("20240520")));
  EXPECT_THAT(Refused("version", File({1, 2, 3}, 20240520, 2)),
              AllOf(HasSubstr("at byte 4"), HasSubstr("the version must be 1 (uint16 tokens; got 2)")));
  EXPECT_THAT(Refused("empty", ""), AllOf(HasSubstr("at byte 0"), HasSubstr("1024")));
  EXPECT_THAT(Refused("header", File({}).substr(0, 1000)), AllOf(HasSubstr("at byte 1000"), HasSubstr("1024")));
  EXPECT_THAT(Refused("cut", File({1, 2, 3}).substr(0, 1028)),
              AllOf(HasSubstr("at byte 8"), HasSubstr("states 3 tokens"), HasSubstr("has 1030 bytes")));
  EXPECT_THAT(Refused("half", File({1, 2, 3}).substr(0, 1029)), HasSubstr("2 and a half"));
  EXPECT_THAT(Refused("long", File({1, 2, 3}, 20240520, 1, 2)),
              AllOf(HasSubstr("states 2 tokens"), HasSubstr("hold 3")));
  std::string negative = File({1, 2, 3});
  negative[11] = '\x80';
  EXPECT_THAT(Refused("negative", negative), HasSubstr("states -"));
  EXPECT_THAT(Refused("few", File({1, 2})), AllOf(HasSubstr("2 tokens"), HasSubstr("needs 3")));
  EXPECT_THAT(Refused("vocab", File({1, 2, 10, 3}), 2, 10),
              AllOf(HasSubstr("at byte 1028"), HasSubstr("token 2 is 10"), HasSubstr("10 entries")));
}

TEST_F(TokenDatasetTest, RefusesWhatIsNoFile) {
  EXPECT_THAT(std::string(MakeTokenDataset(Path("none"), 2).status().message()),
              AllOf(HasSubstr("cannot be read"), HasSubstr("give a .bin file")));
  EXPECT_THAT(std::string(MakeTokenDataset(folder_.string(), 2).status().message()), HasSubstr("not a regular file"));
}

}  // namespace token_dataset_test
}  // namespace twofold
