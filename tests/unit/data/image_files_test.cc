#include "core/data/image_files.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "tests/unit/data/scratch_files.h"

namespace twofold {
namespace image_files_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A big-endian header and what follows it.
std::string Idx(uint32_t magic, const std::vector<uint32_t>& sizes, const std::string& elements) {
  std::string text;
  const auto put = [&text](uint32_t n) {
    for (int shift = 24; shift >= 0; shift -= 8) text.push_back(static_cast<char>(n >> shift));
  };
  put(magic);
  for (uint32_t size : sizes) put(size);
  return text + elements;
}
// 0, 1, 2, ...
std::string Ramp(size_t n) {
  std::string text(n, '\0');
  for (size_t i = 0; i < n; ++i) text[i] = static_cast<char>(i);
  return text;
}

class IdxTest : public ScratchFiles {
 protected:
  std::string Good() { return Idx(2051, {2, 2, 3}, Ramp(12)); }
  std::string GoodLabels() { return Idx(2049, {2}, {2, 0}); }
  absl::StatusOr<std::unique_ptr<Dataset>> Make(const std::string& images, const std::string& labels,
                                                const Shape& input = Shape{2, 3, 1}, int64_t classes = 3) {
    return MakeIdxDataset(Write("images", images), Write("labels", labels), {input, classes});
  }
  std::string Refused(const std::string& file, const std::string& images, const std::string& labels,
                      const Shape& input = Shape{2, 3, 1}, int64_t classes = 3) {
    const absl::Status status = Make(images, labels, input, classes).status();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr(Path(file) + ": "));
    return std::string(status.message());
  }
};

TEST_F(IdxTest, ReadsImagesAndLabels) {
  const auto data = Make(Good(), GoodLabels());
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->size(), 2);
  EXPECT_EQ((*data)->input().shape, (Shape{2, 3, 1}));
  EXPECT_EQ((*data)->input().dtype, DType::kU8);
  EXPECT_EQ((*data)->target().shape, Shape{});
  const Sample<uint8_t> sample = ReadSample<uint8_t>(**data, 1);
  EXPECT_THAT(sample.input, ElementsAre(6, 7, 8, 9, 10, 11));
  EXPECT_THAT(sample.target, ElementsAre(0));
  EXPECT_EQ(ReadSample<uint8_t>(**data, 0).target[0], 2);
  EXPECT_THAT((*data)->Describe(), HasSubstr("2 images of 2 x 3"));
}

TEST_F(IdxTest, PixelsAreFeaturesToo) {
  const auto data = Make(Good(), GoodLabels(), Shape{6});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->input().shape, Shape{6});
}

TEST_F(IdxTest, RefusesWithOffsetAndRemedy) {
  EXPECT_THAT(Refused("images", "", GoodLabels()), AllOf(HasSubstr("at byte 0"), HasSubstr("16 bytes")));
  EXPECT_THAT(Refused("images", Good().substr(0, 15), GoodLabels()), HasSubstr("at byte 15"));
  EXPECT_THAT(Refused("images", Idx(2049, {2, 2, 3}, Ramp(12)), GoodLabels()),
              AllOf(HasSubstr("at byte 0"), HasSubstr("must be 2051 (got 2049)")));
  EXPECT_THAT(Refused("images", Idx(0x00000d03, {2, 2, 3}, Ramp(12)), GoodLabels()), HasSubstr("unsigned bytes"));
  EXPECT_THAT(Refused("images", Idx(2051, {0, 2, 3}, ""), GoodLabels()),
              AllOf(HasSubstr("at byte 4"), HasSubstr("dimension 0 must be at least 1 (got 0)")));
  EXPECT_THAT(Refused("images", Idx(2051, {2, 2, 4}, Ramp(12)), GoodLabels()),
              AllOf(HasSubstr("at byte 12"), HasSubstr("dimension 2 is 4"), HasSubstr("at most 3")));
  EXPECT_THAT(Refused("images", Idx(2051, {0xffffffff, 0xffffffff, 0xffffffff}, Ramp(12)), GoodLabels()),
              HasSubstr("dimension 0 is 4294967295"));
  EXPECT_THAT(Refused("images", Good() + "x", GoodLabels()),
              AllOf(HasSubstr("at byte 28"), HasSubstr("states 12 elements")));
  EXPECT_THAT(Refused("images", Good(), GoodLabels(), Shape{3, 2, 1}),
              AllOf(HasSubstr("at byte 8"), HasSubstr("2 x 3"), HasSubstr("[3, 2, 1]")));
  EXPECT_THAT(Refused("images", Good(), GoodLabels(), Shape{2, 3, 3}), HasSubstr("[2, 3, 3]"));
  EXPECT_THAT(Refused("labels", Good(), Idx(2049, {3}, {0, 1, 2})),
              AllOf(HasSubstr("at byte 4"), HasSubstr("3 labels")));
  EXPECT_THAT(Refused("labels", Good(), GoodLabels(), Shape{2, 3, 1}, 2),
              AllOf(HasSubstr("at byte 8"), HasSubstr("label 0 is 2"), HasSubstr("2 classes")));
  EXPECT_THAT(std::string(MakeIdxDataset(Path("none"), Path("none"), {Shape{1}, 2}).status().message()),
              HasSubstr("cannot be read"));
}

// It has no end, and nobody may ever write into it.
TEST_F(IdxTest, RefusesAPipe) {
  Write("labels", GoodLabels());
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(std::string(MakeIdxDataset(Path("pipe"), Path("labels"), {Shape{2, 3, 1}, 3}).status().message()),
              AllOf(HasSubstr(Path("pipe")), HasSubstr("not a regular file")));
}

class Cifar10Test : public ScratchFiles {
 protected:
  static constexpr size_t kRecord = 3073;
  // Record r has label labels[r]; channel c's pixel i is c + i + r.
  static std::string File(const std::vector<int>& labels) {
    std::string text;
    for (size_t r = 0; r < labels.size(); ++r) {
      text.push_back(static_cast<char>(labels[r]));
      for (size_t c = 0; c < 3; ++c)
        for (size_t i = 0; i < 1024; ++i) text.push_back(static_cast<char>(50 * c + i + r));
    }
    return text;
  }
  static ImageType Type(int64_t classes = 10) { return {Shape{32, 32, 3}, classes}; }
  std::string Refused(const std::string& content, int64_t classes = 10) {
    const absl::Status status = MakeCifar10Dataset(Write("c.bin", content), false, Type(classes)).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr(Path("c.bin") + ": "));
    return std::string(status.message());
  }
};

TEST_F(Cifar10Test, PutsColoursSideBySide) {
  const auto data = MakeCifar10Dataset(Write("c.bin", File({7, 3})), false, Type());
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->size(), 2);
  const Sample<uint8_t> sample = ReadSample<uint8_t>(**data, 1);
  EXPECT_EQ(sample.target[0], 3);
  EXPECT_EQ(sample.input[0], 1);
  EXPECT_EQ(sample.input[1], 51);
  EXPECT_EQ(sample.input[2], 101);
  EXPECT_EQ(sample.input[3 * 33 + 1], 50 + 33 + 1);
}

TEST_F(Cifar10Test, AFolderIsItsBatchesInOrder) {
  Write("f/data_batch_2.bin", File({4}));
  Write("f/data_batch_1.bin", File({1, 2}));
  Write("f/test_batch.bin", File({9, 9, 9}));
  Write("f/readme.html", "");
  const std::string folder = Path("f");
  const auto data = MakeCifar10Dataset(folder, false, Type());
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->size(), 3);
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(ReadSample<uint8_t>(**data, i).target[0], (i == 2 ? 4 : i + 1));
  EXPECT_EQ(ReadSample<uint8_t>(**data, 2).input[0], 0);
  const auto test = MakeCifar10Dataset(folder, true, Type());
  ASSERT_TRUE(test.ok()) << test.status();
  EXPECT_EQ((*test)->size(), 3);
  EXPECT_EQ(ReadSample<uint8_t>(**test, 0).target[0], 9);
}

TEST_F(Cifar10Test, RefusesWithOffsetAndRemedy) {
  EXPECT_THAT(Refused(""), AllOf(HasSubstr("at byte 0"), HasSubstr("3073")));
  EXPECT_THAT(Refused(File({1, 2}).substr(0, kRecord + 5)),
              AllOf(HasSubstr("at byte 3073"), HasSubstr("record 1 has 5 bytes"), HasSubstr("complete file")));
  EXPECT_THAT(Refused(File({1, 10})), AllOf(HasSubstr("at byte 3073"), HasSubstr("record 1 must be 0 to 9 (got 10)")));
  EXPECT_THAT(Refused(File({5}), 4), AllOf(HasSubstr("at byte 0"), HasSubstr("4 classes")));
  std::filesystem::create_directories(Path("empty"));
  EXPECT_THAT(std::string(MakeCifar10Dataset(Path("empty"), false, Type()).status().message()),
              HasSubstr("contains no data_batch_*.bin"));
  EXPECT_THAT(std::string(MakeCifar10Dataset(Path("empty"), true, Type()).status().message()),
              AllOf(HasSubstr("test_batch.bin"), HasSubstr("cannot be read")));
  EXPECT_THAT(std::string(MakeCifar10Dataset(Path("none"), false, {Shape{28, 28, 1}, 10}).status().message()),
              HasSubstr("[28, 28, 1]"));
}

}  // namespace image_files_test
}  // namespace twofold
