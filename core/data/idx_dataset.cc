#include <cstring>
#include <vector>

#include "core/base/check.h"
#include "core/base/strings.h"
#include "core/data/image_files.h"
#include "core/data/mapped_file.h"

namespace twofold {
namespace {

constexpr std::string_view kIdxRemedy = "give a file in MNIST's IDX format, not compressed";

struct Elements {
  MappedFile file;
  int64_t first;               // byte at which the elements begin
  std::vector<int64_t> sizes;  // of each dimension
};

uint32_t BigEndian(const std::byte* at) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | std::to_integer<uint32_t>(at[i]);
  return value;
}

// Opens a file of bytes with `dimensions` dimensions and checks its header against its size.
absl::StatusOr<Elements> Open(const std::string& path, int64_t dimensions, std::string_view what) {
  const int64_t header = 4 + 4 * dimensions;
  absl::StatusOr<MappedFile> file = MappedFile::Open(path, header, "the header", kIdxRemedy);
  if (!file.ok()) return file.status();
  const uint32_t magic = BigEndian(file->data()), right = 0x0800 + static_cast<uint32_t>(dimensions);
  if (magic != right) {
    return RefuseFile(path, 0, "the magic number must be ", right, " (got ", magic, ") for ", what,
                      " of unsigned bytes; ", kIdxRemedy);
  }
  Elements elements{*std::move(file), header, {}};
  int64_t held = 1;
  const int64_t rest = elements.file.size() - header;
  for (int64_t i = 0; i < dimensions; ++i) {
    const int64_t at = 4 + 4 * i, size = BigEndian(elements.file.data() + at);
    if (size == 0)
      return RefuseFile(path, at, "dimension ", i, " must be at least 1 (got 0); give a file that is not empty");
    // No dimension can be larger than the rest of the file allows.
    if (size > rest / held) {
      return RefuseFile(path, at, "dimension ", i, " is ", size, ", but the file's ", elements.file.size(),
                        " bytes hold at most ", rest / held, "; give a complete file");
    }
    held *= size;
    elements.sizes.push_back(size);
  }
  if (held != rest) {
    return RefuseFile(path, header + held, "the header states ", held, " elements, but ", rest,
                      " bytes follow it; a complete file has ", header + held, " bytes");
  }
  return elements;
}

class IdxDataset : public Dataset {
 public:
  IdxDataset(Elements images, Elements labels, const ImageType& type, std::string path)
      : images_(std::move(images)), labels_(std::move(labels)), type_(type), path_(std::move(path)) {}

  int64_t size() const override { return images_.sizes[0]; }
  SampleType input() const override { return {type_.input, DType::kU8}; }
  SampleType target() const override { return {Shape{}, DType::kU8}; }

  void Read(int64_t index, std::span<std::byte> input, std::span<std::byte> target) const override {
    TWOFOLD_CHECK_GE(index, 0);
    TWOFOLD_CHECK_LT(index, size());
    const int64_t pixels = type_.input.numel();
    TWOFOLD_CHECK_EQ(static_cast<int64_t>(input.size()), pixels);
    TWOFOLD_CHECK_EQ(target.size(), size_t{1});
    std::memcpy(input.data(), images_.file.data() + images_.first + index * pixels, input.size());
    target[0] = labels_.file.data()[labels_.first + index];
  }

  std::string Describe() const override {
    return StrCat("idx ", path_, ": ", size(), " images of ", images_.sizes[1], " x ", images_.sizes[2], ", ",
                  type_.classes, " classes");
  }

 private:
  const Elements images_, labels_;
  const ImageType type_;
  const std::string path_;
};

absl::Status CheckImages(const std::string& path, const Elements& images, const Shape& input) {
  const int64_t height = images.sizes[1], width = images.sizes[2];
  const bool fits = input.rank() == 3 ? input == Shape{height, width, 1} : input.numel() == height * width;
  if (fits) return absl::OkStatus();
  return RefuseFile(path, 8, "the images are ", height, " x ", width,
                    " x 1 (height, width, channels), but the model takes ", input.ToString(),
                    "; set the model's input to the size of the images");
}

absl::Status CheckLabels(const std::string& path, const Elements& labels, int64_t count, int64_t classes) {
  if (labels.sizes[0] != count) {
    return RefuseFile(path, 4, "there are ", labels.sizes[0], " labels, but ", count,
                      " images; give the label file that belongs to the images");
  }
  for (int64_t i = 0; i < count; ++i) {
    const auto label = std::to_integer<int64_t>(labels.file.data()[labels.first + i]);
    if (label >= classes) {
      return RefuseFile(path, labels.first + i, "label ", i, " is ", label, ", but the model has ", classes,
                        " classes; give the model more classes");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> MakeIdxDataset(const std::string& images_path, const std::string& labels_path,
                                                        const ImageType& type) {
  absl::StatusOr<Elements> images = Open(images_path, 3, "images");
  if (!images.ok()) return images.status();
  if (absl::Status s = CheckImages(images_path, *images, type.input); !s.ok()) return s;
  absl::StatusOr<Elements> labels = Open(labels_path, 1, "labels");
  if (!labels.ok()) return labels.status();
  if (absl::Status s = CheckLabels(labels_path, *labels, images->sizes[0], type.classes); !s.ok()) return s;
  return std::make_unique<IdxDataset>(*std::move(images), *std::move(labels), type, images_path);
}

}  // namespace twofold
