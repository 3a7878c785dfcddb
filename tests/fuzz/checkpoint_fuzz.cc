// Many damaged checkpoints: a safetensors file, or the manifest, is changed, and the checksums are made right
// again, so that what is behind them is reached. Each becomes tensors that can be read or a message, with little
// memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <vector>

#include "absl/strings/str_format.h"
#include "core/base/strings.h"
#include "core/io/checkpoint_folder.h"
#include "nlohmann/json.hpp"
#include "strategies/checkpoint/load.h"
#include "tests/fuzz/allocations.h"
#include "tests/fuzz/mutate.h"
#include "tests/scratch_folder.h"

namespace twofold::checkpoint {
namespace checkpoint_fuzz {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::string_view kWords[] = {"{",
                                       "}",
                                       "[",
                                       "]",
                                       ":",
                                       ",",
                                       "\"",
                                       "\\",
                                       "\\u0000",
                                       "null",
                                       "true",
                                       "1e999",
                                       "[[[[[[[[",
                                       "{\"a\":",
                                       "\"F64\"",
                                       "\"BF16\"",
                                       "\"shape\":[]",
                                       "\"data_offsets\":[0,0]",
                                       "[0,\"b\",0,1]",
                                       "[1,\"model.d[0:1 of 3]\",0,2,0,1]",
                                       "\"row\":3",
                                       "\"__metadata__\":{}",
                                       "9223372036854775807",
                                       "\xff\xfe",
                                       "model.a",
                                       "model.b"};

void Put(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

// Three tensors, one of them in two files and one in two bands, and a scalar.
struct Good {
  std::map<std::string, std::string> files;
  Manifest manifest;
};

Good MakeGood() {
  Good good;
  std::vector<StoredTensor> first = {{"model.a", DType::kF32, Shape{2, 3}}, {"model.b[0:2]", DType::kF32, Shape{2}}};
  std::vector<StoredTensor> second = {{"model.b[2:5]", DType::kF32, Shape{3}},
                                      {"model.d[0:1 of 3]", DType::kF32, Shape{2}},
                                      {"model.d[1:3 of 3]", DType::kF32, Shape{2, 2}},
                                      {"buffer.c", DType::kBF16, Shape{}}};
  good.files["rank-00000.safetensors"] = SafetensorsHeader(first, {{"format", "pt"}}) + std::string(32, '\1');
  good.files["rank-00001.safetensors"] = SafetensorsHeader(second) + std::string(38, '\2');
  good.manifest.metadata = {.sequence = 1,
                            .step = 3,
                            .updates = 3,
                            .seed = 7,
                            .world_size = 2,
                            .global_batch = 4,
                            .layout = "ZERO_3",
                            .kind = "SHARDED",
                            .optimizer = "adamw",
                            .model = "gpt {}",
                            .scalars = {{"x", 1.5}}};
  good.manifest.contents.tensors = {
      {"model.a", DType::kF32, Shape{2, 3}, {{0, "model.a", Region::Whole(6)}}},
      {"model.b",
       DType::kF32,
       Shape{5},
       {{0, "model.b[0:2]", Region::Run(5, 0, 2)}, {1, "model.b[2:5]", Region::Run(5, 2, 3)}}},
      {"model.d",
       DType::kF32,
       Shape{2, 3},
       {{1, "model.d[0:1 of 3]", {3, 0, 1, 0, 2}}, {1, "model.d[1:3 of 3]", {3, 1, 2, 0, 4}}}},
      {"buffer.c", DType::kBF16, Shape{}, {{1, "buffer.c", Region::Whole(1)}}}};
  return good;
}

std::vector<FileSum> Sums(const std::map<std::string, std::string>& files) {
  std::vector<FileSum> sums;
  for (const auto& [name, bytes] : files) {
    FileSum sum{name, static_cast<int64_t>(bytes.size()), {}};
    if (!bytes.empty()) sum.blocks.push_back(Checksum(std::as_bytes(std::span(bytes))));
    sums.push_back(std::move(sum));
  }
  return sums;
}

// The manifest's text with its content replaced by `content`, sealed again where that is still JSON.
std::string Resealed(const std::string& content) {
  const json parsed = json::parse(content, nullptr, false);
  std::string dumped = parsed.is_discarded() ? content : parsed.dump();
  const uint64_t checksum = Checksum(std::as_bytes(std::span(dumped)));
  return StrCat("{\"format\":\"twofold checkpoint 2\",\"checksum\":\"", absl::StrFormat("%016x", checksum),
                "\",\"content\":", dumped, "}");
}

void CheckRefusal(const absl::Status& status, const std::string& folder) {
  const bool right =
      status.code() == absl::StatusCode::kInvalidArgument || status.code() == absl::StatusCode::kDataLoss;
  ASSERT_TRUE(right) << status;
  ASSERT_EQ(status.message().find(folder), 0u) << status;
}

// Reads the ends of every tensor, as they are and widened; whether all could be.
bool ReadAll(const Manifest& manifest, const std::string& folder) {
  Reader reader(folder, manifest);
  bool all = true;
  std::byte out[64];
  for (const Entry& entry : manifest.contents.tensors) {
    const int64_t numel = entry.shape.numel(), count = std::min<int64_t>(numel, 8);
    for (const int64_t first : {int64_t{0}, numel - count}) {
      for (const DType dtype : {entry.dtype, IsFloat(entry.dtype) ? DType::kF64 : entry.dtype}) {
        const absl::Status status = reader.Read(entry.name, entry.shape, dtype, Region::Run(numel, first, count),
                                                std::span(out).first(static_cast<size_t>(count * ElementSize(dtype))));
        if (!status.ok()) CheckRefusal(status, folder);
        all = all && status.ok();
      }
    }
  }
  return all;
}

TEST(CheckpointFuzz, EveryAnswerIsTensorsOrAMessage) {
  const std::string folder = test::ScratchFolder("checkpoint_fuzz");
  fs::create_directories(folder);
  Good good = MakeGood();
  good.manifest.contents.files = Sums(good.files);
  const std::string good_text = ManifestText(good.manifest), good_content = json::parse(good_text)["content"].dump();
  for (const auto& [name, bytes] : good.files) Put(folder + "/" + name, bytes);
  Put(folder + "/manifest.json", good_text);
  const absl::StatusOr<Opened> undamaged = Open(folder);
  ASSERT_TRUE(undamaged.ok()) << undamaged.status();
  ASSERT_TRUE(ReadAll(undamaged->manifest, folder));

  test::Mutator in_file(TestSeed(), {.words = kWords, .hot = 160}), in_manifest(TestSeed(1), {.words = kWords});
  int opened = 0, whole = 0;
  for (int i = 0; i < Mutants(); ++i) {
    std::map<std::string, std::string> files = good.files;
    std::string text, restored;
    if (i % 2 == 0) {  // one of the files
      auto damaged = std::next(files.begin(), i / 2 % 2);
      damaged->second = in_file.Damage(damaged->second);
      restored = damaged->first;
      Put(folder + "/" + damaged->first, damaged->second);
      Manifest manifest = good.manifest;
      manifest.contents.files = Sums(files);
      text = ManifestText(manifest);
    } else {  // its content, or, now and then, the seal itself
      text = i % 16 == 1 ? in_manifest.Damage(good_text) : Resealed(in_manifest.Damage(good_content));
    }
    Put(folder + "/manifest.json", text);
    int64_t size = static_cast<int64_t>(text.size());
    for (const auto& [name, bytes] : files) size += static_cast<int64_t>(bytes.size());

    const test::Allocations allocations;
    const absl::StatusOr<Opened> checkpoint = Open(folder);
    if (checkpoint.ok()) {
      ++opened;
      whole += ReadAll(checkpoint->manifest, folder);
    } else {
      CheckRefusal(checkpoint.status(), folder);
    }
    ASSERT_FALSE(HasFatalFailure()) << "mutant " << i << "\n" << text;
    ASSERT_LE(allocations.largest(), 8192 + 4 * size) << "mutant " << i;
    ASSERT_LE(allocations.peak(), 65536 + 64 * size) << "mutant " << i;
    if (!restored.empty()) Put(folder + "/" + restored, good.files[restored]);
  }
  EXPECT_GT(opened, Mutants() / 2) << "the mutations no longer get past the manifest";
  EXPECT_GT(whole, Mutants() / 20);
  EXPECT_LT(whole, Mutants() / 2);
  fs::remove_all(folder);
}

// Sizes that a file of a few bytes names are not believed.
TEST(CheckpointFuzz, NoClaimOfSizeTakesMemory) {
  const std::string path = test::ScratchFolder("checkpoint_claim");
  for (const std::string& header :
       {std::string(R"({"a":{"dtype":"F64","shape":[1152921504606846976],"data_offsets":[0,9223372036854775807]}})"),
        StrCat(R"({"a":{"dtype":"F64","shape":[)", std::string(400000, '['), "]}}"),
        StrCat(R"({"a":{"dtype":"F64","shape":[1)", std::string(100000, ','), "]}}")}) {
    std::string bytes(8, '\0');
    for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(header.size() >> (8 * i));
    Put(path, bytes + header);
    const test::Allocations allocations;
    EXPECT_FALSE(ReadSafetensorsHead(path).ok());
    EXPECT_LE(allocations.largest(), 4096 + static_cast<int64_t>(header.size()));
  }
  for (const unsigned char byte : {0xffu, 0x7fu, 0x01u}) {
    Put(path, std::string(7, static_cast<char>(byte)) + "\x01{}");
    const test::Allocations allocations;
    EXPECT_FALSE(ReadSafetensorsHead(path).ok());
    EXPECT_LE(allocations.largest(), 4096);
  }
  fs::remove(path);
}

}  // namespace checkpoint_fuzz
}  // namespace twofold::checkpoint
