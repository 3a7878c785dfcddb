// What a checkpoint's manifest says, and what is refused in one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/strings.h"
#include "core/io/checkpoint_manifest.h"
#include "core/io/safetensors.h"

namespace twofold::checkpoint {
namespace checkpoint_manifest_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Manifest Example() {
  Manifest m;
  m.metadata = {.sequence = 3,
                .step = 60,
                .updates = 59,
                .seed = ~uint64_t{0},
                .world_size = 2,
                .global_batch = 8,
                .layout = "ZERO_3",
                .kind = "SHARDED",
                .optimizer = "adamw",
                .model = "gpt { }",
                .scalars = {{"a", 0.1}, {"b", -HUGE_VAL}, {"c", 1e300}}};
  m.contents.files = {{"r0", 3 * kChecksumBlock + 1, {1, 2, 3, ~uint64_t{0}}}, {"r1", 8, {5}}};
  m.contents.tensors = {{"model.w",
                         DType::kF32,
                         Shape{2, 3},
                         {{0, "model.w[0:4]", Region::Run(6, 0, 4)}, {1, "model.w[4:6]", Region::Run(6, 4, 2)}}}};
  return m;
}

TEST(Manifest, ReadsWhatItWrote) {
  const Manifest was = Example();
  const absl::StatusOr<Manifest> is = ParseManifest("m", ManifestText(was));
  ASSERT_TRUE(is.ok()) << is.status();
  EXPECT_EQ(is->metadata.seed, was.metadata.seed);
  EXPECT_EQ(is->metadata.scalars, was.metadata.scalars);
  EXPECT_EQ(is->metadata.step, 60);
  EXPECT_EQ(is->contents.files[0].blocks, was.contents.files[0].blocks);
  EXPECT_EQ(is->contents.tensors[0].pieces[1].tensor, "model.w[4:6]");
  EXPECT_EQ(ManifestText(*is), ManifestText(was));
}

// A program that does not know this format refuses it by its name.
TEST(Manifest, SaysThatThereAreNoValues) {
  Manifest was = Example();
  EXPECT_TRUE(ParseManifest("m", ManifestText(was))->metadata.has_values);
  was.metadata.has_values = false;
  const std::string text = ManifestText(was);
  EXPECT_THAT(text, HasSubstr("\"format\": \"twofold checkpoint without values 1\""));
  const absl::StatusOr<Manifest> is = ParseManifest("m", text);
  ASSERT_TRUE(is.ok()) << is.status();
  EXPECT_FALSE(is->metadata.has_values);
  EXPECT_EQ(ManifestText(*is), text);
}

std::string ErrorOf(const Manifest& m) { return std::string(ParseManifest("m", ManifestText(m)).status().message()); }

TEST(Manifest, RefusesWhatDoesNotHoldTogether) {
  std::string text = ManifestText(Example());
  text.replace(text.find("\"step\": 60"), 10, "\"step\": 61");
  EXPECT_THAT(std::string(ParseManifest("m", text).status().message()),
              HasSubstr("content: has changed since it was saved: its checksum is"));
  EXPECT_THAT(std::string(ParseManifest("m", text.substr(0, 50)).status().message()),
              HasSubstr("m: is not valid JSON"));
  EXPECT_THAT(std::string(ParseManifest("m", PartText({})).status().message()),
              HasSubstr("format: \"twofold checkpoint part 2\" is not a format"));
  Manifest m = Example();
  m.contents.tensors[0].pieces.pop_back();
  EXPECT_THAT(ErrorOf(m), HasSubstr("tensor \"model.w\": elements 4 to 6 are missing"));
  m = Example();
  m.contents.tensors[0].pieces[1].where.first = 3;
  EXPECT_THAT(ErrorOf(m), HasSubstr("tensor \"model.w\": elements 3 to 4 are stored twice"));
  m = Example();
  m.contents.tensors[0].pieces[1].where.count = 9;
  EXPECT_THAT(ErrorOf(m), HasSubstr("a piece of 9 elements from 4 on does not fit within 6 elements"));
  m = Example();
  m.contents.tensors[0].pieces[1].file = 2;
  EXPECT_THAT(ErrorOf(m), HasSubstr("a piece is in file 2, but there are only 2 files"));
  m = Example();
  m.contents.tensors.push_back(m.contents.tensors[0]);
  EXPECT_THAT(ErrorOf(m), HasSubstr("tensor \"model.w\" is listed twice"));
  m = Example();
  m.contents.files[0].blocks.pop_back();
  EXPECT_THAT(ErrorOf(m), HasSubstr("3145729 bytes need 4 checksums"));
  m = Example();
  m.contents.files[0].name = "../secret";
  EXPECT_THAT(ErrorOf(m), HasSubstr("is not a valid file name"));
}

TEST(Manifest, SaysWhatAReducersTensorHolds) {
  const auto holding = [](const Held& held) {
    Manifest m = Example();
    m.contents.tensors[0].holds = {held};
    return m;
  };
  const Held held{"block.0.weight", 1, Region{8, 2, 3, 4, 5}, 0.25};
  const absl::StatusOr<Manifest> is = ParseManifest("m", ManifestText(holding(held)));
  ASSERT_TRUE(is.ok()) << is.status();
  EXPECT_EQ(is->contents.tensors[0].holds, std::vector<Held>{held});
  EXPECT_THAT(ErrorOf(holding({"w", 2, Region::Whole(5), 1})), HasSubstr("5 elements from 2 on do not fit within 6"));
  EXPECT_THAT(ErrorOf(holding({"w", 0, Region{8, 2, 7, 0, 5}, 1})),
              HasSubstr("of columns 2 to 9 of rows of 8, which is no part of a parameter"));
  EXPECT_THAT(ErrorOf(holding({"w", 0, Region{8, 0, 0, 0, 5}, 1})), HasSubstr("which is no part of a parameter"));
  EXPECT_THAT(ErrorOf(holding({"w", 0, Region::Run(int64_t{1} << 61, int64_t{1} << 60, 5), 1})),
              HasSubstr("which is no part of a parameter"));
  EXPECT_THAT(ErrorOf(holding({"w", 0, Region::Whole(5), 0})), HasSubstr("weight of what it holds must be"));
  EXPECT_THAT(ErrorOf(holding({"w", 0, Region::Whole(5), HUGE_VAL})), HasSubstr("weight of what it holds must be"));
}

TEST(Manifest, HasBandsOfColumns) {
  Manifest m = Example();
  Entry& w =
      m.contents
          .tensors[0];  // 2 rows of 3: columns 0 and 1 in one file, whole; column 2 in another, element by element
  w.pieces = {{1, "c", {3, 2, 1, 1, 1}}, {0, "a", {3, 0, 2, 0, 4}}, {1, "b", {3, 2, 1, 0, 1}}};
  const absl::StatusOr<Manifest> is = ParseManifest("m", ManifestText(m));
  ASSERT_TRUE(is.ok()) << is.status();
  EXPECT_THAT(
      (std::vector<std::string>{is->contents.tensors[0].pieces[0].tensor, is->contents.tensors[0].pieces[1].tensor,
                                is->contents.tensors[0].pieces[2].tensor}),
      ElementsAre("a", "b", "c"));
  EXPECT_EQ(is->contents.tensors[0].row(), 3);
  const auto broken = [&](auto change) {
    Manifest bad = m;
    change(bad.contents.tensors[0]);
    return ErrorOf(bad);
  };
  EXPECT_THAT(broken([](Entry& e) { e.pieces[0].where.row = 4; }),
              HasSubstr("6 elements cannot be divided into rows of 4"));
  EXPECT_THAT(broken([](Entry& e) { e.pieces.erase(e.pieces.begin() + 1); }), HasSubstr("columns 0 to 2 are missing"));
  EXPECT_THAT(broken([](Entry& e) { e.pieces.erase(e.pieces.begin()); }),
              HasSubstr("elements 1 to 2 of columns 2 to 3 are missing"));
  EXPECT_THAT(broken([](Entry& e) { e.pieces[0].where.column = 1, e.pieces[2].where.column = 1; }),
              HasSubstr("columns 1 to 2 are stored twice"));
  EXPECT_THAT(broken([](Entry& e) { e.pieces[0].where.width = 2; }),
              HasSubstr("a band of 2 columns from 2 on does not fit within rows of 3"));
  EXPECT_THAT(broken([](Entry& e) { e.pieces[1].where.width = 1, e.pieces[1].where.count = 2; }),
              HasSubstr("columns 1 to 2 are missing"));
  EXPECT_THAT(broken([](Entry& e) { e.pieces[1].where.count = 5; }),
              HasSubstr("a piece of 5 elements from 0 on does not fit within 4 elements"));
  EXPECT_THAT(broken([](Entry& e) { e.pieces[0].where.column = 0, e.pieces[0].where.width = 1; }),
              HasSubstr("bands of different widths begin at column 0"));
  EXPECT_THAT(broken([](Entry& e) { e.pieces[0].where.column = int64_t{1} << 61; }),
              HasSubstr("does not fit within rows of 3"));
}

TEST(Manifest, ReadsTheFirstFormatToo) {
  std::string text = ManifestText(Example());
  text.replace(text.find("checkpoint 2"), 12, "checkpoint 1");
  EXPECT_TRUE(ParseManifest("m", text).ok());
  text.replace(text.find("checkpoint 1"), 12, "checkpoint 3");
  EXPECT_THAT(std::string(ParseManifest("m", text).status().message()), HasSubstr("it reads \"twofold checkpoint 2\""));
}

TEST(Manifest, MergesTheParts) {
  const Manifest m = Example();
  Contents one{{m.contents.files[0]}, {m.contents.tensors[0]}}, two{{m.contents.files[1]}, {m.contents.tensors[0]}};
  one.tensors[0].pieces = {{0, "model.w[0:4]", Region::Run(6, 0, 4)}};
  two.tensors[0].pieces = {{0, "model.w[4:6]", Region::Run(6, 4, 2)}};
  const absl::StatusOr<Contents> all = Merge("here", {two, one});
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->tensors[0].pieces[0].file, 1);  // in order of elements
  EXPECT_EQ(all->tensors[0].pieces[1].file, 0);
  EXPECT_THAT(std::string(Merge("here", {one}).status().message()), HasSubstr("elements 4 to 6 are missing"));
  two.tensors[0].dtype = DType::kF64;
  EXPECT_THAT(std::string(Merge("here", {one, two}).status().message()),
              HasSubstr("is f32[2, 3] for one rank and f64[2, 3] for another"));
}

}  // namespace checkpoint_manifest_test
}  // namespace twofold::checkpoint
