// The parts of checkpoints: files, folders, and who writes what. For manifests see checkpoint_manifest_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/base/strings.h"
#include "core/io/checkpoint_folder.h"
#include "core/io/checkpoint_manifest.h"
#include "core/io/safetensors.h"
#include "core/io/worker.h"
#include "strategies/checkpoint/load.h"
#include "strategies/checkpoint/pieces.h"
#include "tests/scratch_folder.h"
#include "tests/seed.h"

namespace twofold::checkpoint {
namespace checkpoint_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

std::string Folder(const std::string& name) {
  const std::string path = test::ScratchFolder(name);
  fs::create_directories(path);
  return path;
}

std::string FileBytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}
void PutBytes(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

// ---- safetensors ----

std::string Prefixed(const std::string& json) {
  std::string prefix(8, '\0');
  for (int i = 0; i < 8; ++i) prefix[static_cast<size_t>(i)] = static_cast<char>(json.size() >> (8 * i));
  return prefix + json;
}

TEST(Safetensors, WritesTheBytesThatTheFormatSays) {
  std::vector<StoredTensor> tensors = {{"a.weight", DType::kF32, Shape{2, 3}}, {"b", DType::kBF16, Shape{1}}};
  const std::string header = SafetensorsHeader(tensors, {{"format", "pt"}});
  // 176 characters of JSON are a multiple of 8: written out by hand from the format's description.
  const std::string json =
      R"({"__metadata__":{"format":"pt"},"a.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("b":{"dtype":"BF16","shape":[1],"data_offsets":[24,26]}})";
  std::string padded = json;
  while (padded.size() % 8 != 0) padded += ' ';
  EXPECT_EQ(header, Prefixed(padded));
  EXPECT_EQ(header.size() % 8, 0u);
  EXPECT_EQ(tensors[0].begin, static_cast<int64_t>(header.size()));
  EXPECT_EQ(tensors[1].begin, static_cast<int64_t>(header.size()) + 24);
}

TEST(Safetensors, ReadsWhatItWrote) {
  const std::string path = Folder("safetensors") + "/t.safetensors";
  std::vector<StoredTensor> tensors = {{"a", DType::kF64, Shape{2, 1}},
                                       {"scalar", DType::kF16, Shape{}},
                                       {"i", DType::kI32, Shape{3}},
                                       {"bytes", DType::kU8, Shape{5}},
                                       {"none", DType::kF32, Shape{0, 4}}};
  PutBytes(path, SafetensorsHeader(tensors, {{"k", "v"}}) + std::string(16 + 2 + 12 + 5, 'x'));
  const absl::StatusOr<SafetensorsHead> head = ReadSafetensorsHead(path);
  ASSERT_TRUE(head.ok()) << head.status();
  EXPECT_EQ(head->metadata.at("k"), "v");
  ASSERT_EQ(head->tensors.size(), tensors.size());
  for (const StoredTensor& t : tensors) {
    const StoredTensor& read = head->tensors.at(t.name);
    EXPECT_EQ(read.dtype, t.dtype);
    EXPECT_EQ(read.shape, t.shape);
    EXPECT_EQ(read.begin, t.begin);
  }
}

struct BadHeader {
  std::string json, elements;
  std::vector<std::string> fragments;
};

TEST(Safetensors, RefusesWhatIsWrongNamingFileAndTensor) {
  const std::string a = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})", eight(8, 'x');
  const BadHeader rows[] = {
      {"{", "", {"is not valid JSON at byte"}},
      {"[]", "", {"the header is a list, not an object"}},
      {R"({"a":3})", "", {"tensor \"a\"", "is a number, not an object"}},
      {"{" + a + "," + a + "}", eight, {"tensor \"a\"", "given twice"}},
      {R"({"a":{"dtype":"F32","dtype":"F64","shape":[1],"data_offsets":[0,8]}})", eight, {"\"dtype\" is given twice"}},
      {R"({"a":{"dtype":"F8","shape":[8],"data_offsets":[0,8]}})",
       eight,
       {"tensor \"a\"", "dtype \"F8\"", "F64, F32, BF16"}},
      {R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", eight, {"tensor \"a\"", "has no shape"}},
      {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})",
       eight,
       {"tensor \"a\"", "more bytes than the file has"}},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})",
       eight,
       {"tensor \"a\"", "F32[1] takes 4 bytes", "hold 8"}},
      {R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8]}})",
       eight,
       {"more bytes than the file has"}},
      {R"({"a":{"dtype":"F32","shape":[4611686018427387904,4611686018427387904,0],"data_offsets":[0,0]}})",
       "",
       {"more bytes than the file has"}},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", eight, {"begin at 8 but end before that"}},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]}})",
       eight,
       {"3 numbers; it must have 2, a begin and an end"}},
      {R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", eight, {"tensor \"a\"", "a number below 0"}},
      {R"({"a":{"dtype":"F32","shape":[2.5],"data_offsets":[0,8]}})", eight, {"not whole"}},
      {R"({"a":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})", eight, {"a list"}},
      {R"({"a":{"dtype":{"x":1},"shape":[2],"data_offsets":[0,8]}})", eight, {"an object"}},
      {"{" + a + "}", "xxxx", {"tensor \"a\"", "ends at byte 8 of the elements, but the file has only 4"}},
      {"{" + a + "}", eight + "y", {"its tensors end at byte"}},
      {"{" + a + R"(,"b":{"dtype":"U8","shape":[1],"data_offsets":[9,10]}})",
       eight + "yy",
       {"tensor \"b\"", "no tensor covers the bytes from byte 8"}},
      {"{" + a + R"(,"b":{"dtype":"U8","shape":[3],"data_offsets":[7,10]}})",
       eight + "yy",
       {"tensor \"b\"", "another tensor already covers"}},
  };
  const std::string path = Folder("bad") + "/bad.safetensors";
  for (const BadHeader& row : rows) {
    PutBytes(path, Prefixed(row.json) + row.elements);
    const absl::StatusOr<SafetensorsHead> head = ReadSafetensorsHead(path);
    ASSERT_FALSE(head.ok()) << row.json;
    const std::string message(head.status().message());
    EXPECT_EQ(message.find(path), 0u) << message;
    for (const std::string& fragment : row.fragments) EXPECT_THAT(message, HasSubstr(fragment)) << row.json;
  }
  PutBytes(path, std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10));
  EXPECT_THAT(std::string(ReadSafetensorsHead(path).status().message()),
              HasSubstr("in a file of 10 bytes it can have at most 2"));
  PutBytes(path, "short");
  EXPECT_THAT(std::string(ReadSafetensorsHead(path).status().message()), HasSubstr("too soon"));
}

// ---- Files with checksums ----

TEST(BlockFile, ReadsAnyPartAndSeesAnyFlippedBit) {
  const std::string folder = Folder("blocks");
  const int64_t size = 2 * WriteBuffer::kSize + 12345;
  std::string content(static_cast<size_t>(size), '\0');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 2654435761u >> 13);
  absl::StatusOr<BlockWriter> writer = BlockWriter::Create(folder, "f", size);
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (int64_t at = 0; at < size; at += WriteBuffer::kSize) {
    WriteBuffer buffer;
    const auto part = static_cast<size_t>(std::min(WriteBuffer::kSize, size - at));
    std::memcpy(buffer.room().data(), content.data() + at, part);
    buffer.Filled(part);
    ASSERT_TRUE(writer->Write(buffer).ok());
  }
  const absl::StatusOr<FileSum> sum = writer->Finish();
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_EQ(FileBytes(folder + "/f"), content);
  EXPECT_EQ(SumOfFile(folder, "f")->blocks, sum->blocks);

  auto file = CheckedFile::Open(folder, *sum);
  ASSERT_TRUE(file.ok());
  for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, 10},
                                     {kChecksumBlock - 3, 7},
                                     {5, 3 * kChecksumBlock},
                                     {size - 4, 4},
                                     {size, 0}}) {
    std::string out(static_cast<size_t>(count), '?');
    ASSERT_TRUE(file->Read(first, std::as_writable_bytes(std::span(out))).ok());
    EXPECT_EQ(out, content.substr(static_cast<size_t>(first), static_cast<size_t>(count)));
  }
  std::string bad = content;
  bad[static_cast<size_t>(kChecksumBlock) + 77] ^= 16;
  PutBytes(folder + "/f", bad);
  auto damaged = CheckedFile::Open(folder, *sum);
  std::string out(8, '?');
  EXPECT_TRUE(damaged->Read(0, std::as_writable_bytes(std::span(out))).ok()) << "another block";
  const absl::Status status = damaged->Read(kChecksumBlock, std::as_writable_bytes(std::span(out)));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(StrCat(folder, "/f: bytes 1048576 to 2097152 have changed since they were saved")));
  PutBytes(folder + "/f", content.substr(1));
  EXPECT_THAT(std::string(CheckedFile::Open(folder, *sum).status().message()),
              HasSubstr(StrCat("has ", size - 1, " bytes, but had ", size, " when it was saved")));
}

TEST(Worker, StopsAtTheFirstThatFailsAndLeavesTheRestWhenItGoes) {
  std::vector<int> done;
  {
    Worker worker(0, false);
    worker.Post(0, [&] { return done.push_back(1), absl::OkStatus(); });
    EXPECT_TRUE(worker.Wait().ok());
    worker.Post(0, [] { return absl::UnavailableError("full"); });
    worker.Post(0, [&] { return done.push_back(2), absl::OkStatus(); });
    EXPECT_EQ(worker.Wait().message(), "full");
    EXPECT_TRUE(worker.idle());
  }
  EXPECT_THAT(done, ElementsAre(1));
  Worker waits(0, true);
  waits.Post(0, [&] {
    while (waits.Sleep()) {
    }
    return absl::OkStatus();
  });
  EXPECT_FALSE(waits.idle());  // and is told when the worker goes
}

// Whoever waits for a part renames the folder as soon as the part is there.
TEST(PublishSmallFile, NeedsTheFolderNoLongerOnceTheNameIsThere) {
  const std::string folder = test::ScratchFolder("published");
  const int rounds = Full() ? 15000 : 5000;
  for (int i = 0; i < rounds; ++i) {
    const std::string partial = StrCat(folder, "/", i, ".partial");
    fs::create_directories(partial);
    std::thread waits([&] {
      while (!fs::exists(partial + "/part")) {
      }
      fs::rename(partial, StrCat(folder, "/", i));
    });
    const absl::Status published = PublishSmallFile(partial, "part", "text");
    waits.join();
    ASSERT_TRUE(published.ok()) << published.message();
    ASSERT_EQ(FileBytes(StrCat(folder, "/", i, "/part")), "text");
  }
  fs::remove_all(folder);
}

// ---- Folders ----

Manifest Empty(int64_t step) {
  Manifest m;
  m.metadata = {.sequence = step, .step = step, .layout = "NO_SHARD", .kind = "FULL"};
  return m;
}

TEST(CheckpointFolder, KeepsTheLastAndClearsWhatWasLeft) {
  const std::string folder = Folder("folder") + "/deep/er";
  for (const int step : {10, 20, 5}) {  // the third goes on from before the second
    const absl::StatusOr<Begun> begun = Begin(folder, step);
    ASSERT_TRUE(begun.ok()) << begun.status();
    EXPECT_TRUE(fs::exists(begun->partial));
    ASSERT_TRUE(Commit(folder, *begun, Empty(step), 2).ok());
  }
  const std::vector<Found> there = List(folder);
  ASSERT_EQ(there.size(), 2u);
  EXPECT_EQ(there[0].step, 5);
  EXPECT_EQ(there[1].step, 20);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 2)
      << "what is not kept leaves nothing";
  EXPECT_EQ(Open(folder)->manifest.metadata.step, 5);
  EXPECT_EQ(Open(there[1].path)->manifest.metadata.step, 20);

  const absl::StatusOr<Begun> killed = Begin(folder, 30);
  PutBytes(killed->partial + "/half", "x");
  EXPECT_EQ(Open(folder)->manifest.metadata.step, 5);
  ASSERT_TRUE(Begin(folder, 40).ok());
  EXPECT_FALSE(fs::exists(killed->partial));

  fs::remove(there[0].path + "/manifest.json");
  const absl::StatusOr<Opened> older = Open(folder);
  ASSERT_TRUE(older.ok());
  EXPECT_EQ(older->manifest.metadata.step, 20);
  EXPECT_THAT(older->passed_over, ElementsAre(HasSubstr("manifest.json: cannot be read")));
  PutBytes(there[1].path + "/manifest.json", "{}");
  EXPECT_THAT(std::string(Open(folder).status().message()), HasSubstr("has no good checkpoint"));
  EXPECT_THAT(std::string(Open(folder + "/none").status().message()), HasSubstr("is not a folder"));
}

// ---- What is where ----

// A file with the float 100 f + i as element i of tensor "t<f>".
FileSum NumbersFile(const std::string& folder, int f, int64_t count) {
  std::vector<StoredTensor> stored = {{StrCat("t", f), DType::kF32, Shape{count}}};
  std::string bytes = SafetensorsHeader(stored);
  for (int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>(100 * f + i);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  PutBytes(StrCat(folder, "/f", f), bytes);
  return *SumOfFile(folder, StrCat("f", f));
}

// Whatever bands a tensor was saved in, it can be read in any other.
TEST(Reader, ReadsAnyBandOfWhatAnyBandsWereSaved) {
  const std::string folder = Folder("bands");
  const int64_t rows = 5, row = 12;
  const std::vector<std::vector<int64_t>> cuts = {{12}, {6, 6}, {1, 4, 7}, {3, 3, 3, 3}};  // widths of what was saved
  for (const std::vector<int64_t>& widths : cuts) {
    Manifest m;
    std::vector<float> whole(static_cast<size_t>(rows * row));
    m.contents.tensors = {{"w", DType::kF32, Shape{rows, row}, {}}};
    int64_t column = 0;
    int f = 0;
    for (const int64_t width : widths) {
      const int64_t elements = rows * width, first = elements / 3;  // in two pieces, which end within a row
      for (const auto& [begin, count] : {std::pair{int64_t{0}, first}, {first, elements - first}}) {
        m.contents.files.push_back(NumbersFile(folder, f, count));
        const Region where{row, column, width, begin, count};
        m.contents.tensors[0].pieces.push_back({f, StrCat("t", f), where});
        for (int64_t i = 0; i < count; ++i) {
          whole[static_cast<size_t>(where.IndexOf(i))] = static_cast<float>(100 * f + i);
        }
        ++f;
      }
      column += width;
    }
    const absl::StatusOr<Manifest> manifest = ParseManifest("m", ManifestText(m));
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    Reader reader(folder, *manifest);
    for (const Region& band : {Region::Whole(rows * row), Region{12, 0, 12}, Region{12, 0, 1}, Region{12, 2, 7},
                               Region{12, 11, 1}, Region{4, 1, 2}, Region{30, 5, 20}}) {
      const int64_t elements = band.Band(rows * row).count;
      for (const auto& [first, count] :
           {std::pair{int64_t{0}, elements}, {elements / 3, elements / 2}, {elements - 1, int64_t{1}}}) {
        std::vector<float> out(static_cast<size_t>(count));
        const Region where = band.Band(rows * row).Slice(first, count);
        const absl::Status status =
            reader.Read("w", Shape{rows, row}, DType::kF32, where, std::as_writable_bytes(std::span(out)));
        ASSERT_TRUE(status.ok()) << status;
        for (int64_t i = 0; i < count; ++i) {
          ASSERT_EQ(out[static_cast<size_t>(i)], whole[static_cast<size_t>(where.IndexOf(i))])
              << widths.size() << " bands, element " << i << " from " << first << " of columns " << band.column << " + "
              << band.width << " of " << band.row;
        }
      }
    }
  }
}

TEST(PiecesOf, SaysWhereASplitParametersElementsLie) {
  MallocSource source;
  CachingAllocator allocator(source, 0);
  nn::Parameter rows("w", Shape{5, 2}, DType::kF32, {}), columns("w", Shape{4, 2, 2}, DType::kF32, {});
  const auto places = [&](const nn::Parameter& p, int64_t first, int64_t count) {
    std::string text;
    const optim::Slice slice{.name = "s",
                             .data = Allocate(allocator, Shape{count + 3}, DType::kF32, Category::kOther),
                             .gradient = Tensor(),
                             .parts = {{&p, first, 3, count}}};
    for (const LocalPiece& h : PiecesOf("", slice, slice.data)) {
      const Region& r = h.where;
      EXPECT_EQ(h.data.numel(), r.count);
      absl::StrAppend(&text, text.empty() ? "" : ", ", h.owned ? "" : "not ours ", r.first, "+", r.count);
      if (!r.contiguous()) absl::StrAppend(&text, " of ", r.column, ":", r.column + r.width, "/", r.row);
    }
    return text;
  };
  rows.set_shard_layout(nn::ShardLayout::Rows(Shape{12, 2}, {{2, 1}, {3, 1}, {6, 1, false}, {-1, 2}}));
  EXPECT_EQ(places(rows, 0, 10), "4+4, not ours 12+2") << "rows 2, 3, 6 and two of padding";
  EXPECT_EQ(places(rows, 3, 2), "7+1, not ours 12+1");
  EXPECT_EQ(places(rows, 7, 3), "");
  columns.set_shard_layout(nn::ShardLayout::Along(Shape{4, 6, 2}, 1, 1, 2));
  EXPECT_EQ(places(columns, 0, 16), "0+16 of 2:6/12");
  EXPECT_EQ(places(columns, 3, 5), "3+5 of 2:6/12");
}

// ---- Who writes what ----

TEST(CheckpointFolder, IsOneRunsAtATime) {
  const std::string folder = Folder("claimed") + "/below/it";
  {
    const absl::StatusOr<Claim> first = Claim::Make(folder);
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_TRUE(fs::is_directory(folder));
    EXPECT_THAT(std::string(Claim::Make(folder).status().message()),
                HasSubstr("another run that is still running saves to this folder"));
  }
  EXPECT_TRUE(Claim::Make(folder).ok()) << "the first has ended";
}

TEST(CheckpointFolder, KnowsNoNumberThatHasNoneAfterIt) {
  const std::string folder = Folder("numbers");
  for (const char* name : {"000003-step-4", "9223372036854775807-step-4", "99999999999999999999-step-4", "-1-step-4"}) {
    fs::create_directory(StrCat(folder, "/", name));
  }
  const std::vector<Found> found = List(folder);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].sequence, 3);
}

TEST(ShareOf, GivesEveryElementToOneReplicaAndAllAsMuch) {
  MallocSource source;
  CachingAllocator allocator(source, 0);
  std::vector<LocalPiece> pieces;
  int64_t total = 0;
  for (const int64_t count : {1, 1000, 3, 7, 500, 2}) {
    const DType dtype = count == 7 ? DType::kF64 : count == 500 ? DType::kBF16 : DType::kF32;
    pieces.push_back({.name = StrCat("p", count),
                      .shape = Shape{count + 10},
                      .where = Region::Run(count + 10, 10, count),
                      .data = Allocate(allocator, Shape{count}, dtype, Category::kOther)});
    total += pieces.back().data.bytes().value();
  }
  for (const int64_t replicas : {1, 2, 3, 7, 64}) {
    std::map<std::string, int64_t> next;
    for (int64_t r = 0; r < replicas; ++r) {
      int64_t bytes = 0;
      for (const LocalPiece& h : ShareOf(pieces, r, replicas)) {
        EXPECT_EQ(h.where.first, next.emplace(h.name, 10).first->second) << h.name;
        next[h.name] += h.data.numel();
        bytes += h.data.bytes().value();
      }
      EXPECT_NEAR(static_cast<double>(bytes), static_cast<double>(total) / static_cast<double>(replicas), 8);
    }
    for (const LocalPiece& p : pieces) EXPECT_EQ(next[p.name], 10 + p.data.numel()) << p.name << " of " << replicas;
  }
}

}  // namespace checkpoint_test
}  // namespace twofold::checkpoint
