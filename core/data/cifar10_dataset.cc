#include <algorithm>
#include <filesystem>
#include <vector>

#include "core/base/check.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/data/image_files.h"
#include "core/data/mapped_file.h"

namespace twofold {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSide = 32, kChannels = 3, kPlane = kSide * kSide, kRecord = 1 + kChannels * kPlane, kClasses = 10;
constexpr std::string_view kCifar10Remedy =
    "give CIFAR-10's binary version: a .bin file, or the folder with data_batch_*.bin";

struct Records {
  MappedFile file;
  int64_t first, count;  // over all files
};

class Cifar10Dataset : public Dataset {
 public:
  Cifar10Dataset(std::vector<Records> files, const ImageType& type, std::string path)
      : files_(std::move(files)), type_(type), path_(std::move(path)) {}

  int64_t size() const override { return files_.back().first + files_.back().count; }
  SampleType input() const override { return {type_.input, DType::kU8}; }
  SampleType target() const override { return {Shape{}, DType::kU8}; }

  void Read(int64_t index, std::span<std::byte> input, std::span<std::byte> target) const override {
    TWOFOLD_CHECK_GE(index, 0);
    TWOFOLD_CHECK_LT(index, size());
    TWOFOLD_CHECK_EQ(static_cast<int64_t>(input.size()), kChannels * kPlane);
    TWOFOLD_CHECK_EQ(target.size(), size_t{1});
    const auto file = std::prev(
        std::upper_bound(files_.begin(), files_.end(), index, [](int64_t i, const Records& r) { return i < r.first; }));
    const std::byte* record = file->file.data() + (index - file->first) * kRecord;
    target[0] = record[0];
    for (int64_t pixel = 0; pixel < kPlane; ++pixel) {  // colour planes become interleaved channels
      for (int64_t c = 0; c < kChannels; ++c)
        input[static_cast<size_t>(pixel * kChannels + c)] = record[1 + c * kPlane + pixel];
    }
  }

  std::string Describe() const override {
    return StrCat("cifar10 ", path_, ": ", size(), " images of 32 x 32 x 3, 10 classes");
  }

 private:
  const std::vector<Records> files_;
  const ImageType type_;
  const std::string path_;
};

absl::StatusOr<Records> OpenRecords(const std::string& path, int64_t first, int64_t classes) {
  absl::StatusOr<MappedFile> file = MappedFile::Open(path, kRecord, "the first record", kCifar10Remedy);
  if (!file.ok()) return file.status();
  const int64_t count = file->size() / kRecord, rest = file->size() % kRecord;
  if (rest != 0) {
    return RefuseFile(path, count * kRecord, "record ", count, " has ", rest, " bytes, but a record has ", kRecord,
                      "; give a complete file");
  }
  const int64_t most = std::min(classes, kClasses);
  for (int64_t i = 0; i < count; ++i) {
    const auto label = std::to_integer<int64_t>(file->data()[i * kRecord]);
    if (label < most) continue;
    return RefuseFile(path, i * kRecord,
                      label >= kClasses
                          ? StrCat("the label of record ", i, " must be 0 to 9 (got ", label, "); ", kCifar10Remedy)
                          : StrCat("the label of record ", i, " is ", label, ", but the model has ", classes,
                                   " classes; give the model 10 classes"));
  }
  return Records{*std::move(file), first, count};
}

// The files that `path` denotes.
absl::StatusOr<std::vector<std::string>> FilesOf(const std::string& path, bool test) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return std::vector<std::string>{path};
  if (test) return std::vector<std::string>{(fs::path(path) / "test_batch.bin").string()};
  std::vector<std::string> files;
  fs::directory_iterator entries(path, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    const std::string name = entries->path().filename().string();
    if (name.starts_with("data_batch_") && name.ends_with(".bin")) files.push_back(entries->path().string());
  }
  if (error) return InvalidArgument(path, ": cannot be read: ", error.message(), "; ", kCifar10Remedy);
  if (files.empty()) return InvalidArgument(path, ": contains no data_batch_*.bin; ", kCifar10Remedy);
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> MakeCifar10Dataset(const std::string& path, bool test, const ImageType& type) {
  const Shape& input = type.input;
  if (input.rank() == 3 ? input != Shape{kSide, kSide, kChannels} : input.numel() != kChannels * kPlane) {
    return InvalidArgument(path, ": the images are 32 x 32 x 3 (height, width, channels), but the model takes ",
                           input.ToString(), "; set the model's input to the size of the images");
  }
  const absl::StatusOr<std::vector<std::string>> files = FilesOf(path, test);
  if (!files.ok()) return files.status();
  std::vector<Records> all;
  int64_t count = 0;
  for (const std::string& file : *files) {
    absl::StatusOr<Records> records = OpenRecords(file, count, type.classes);
    if (!records.ok()) return records.status();
    count += records->count;
    all.push_back(*std::move(records));
  }
  return std::make_unique<Cifar10Dataset>(std::move(all), type, path);
}

}  // namespace twofold
