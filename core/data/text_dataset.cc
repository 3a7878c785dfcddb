#include "core/data/text_dataset.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

namespace fs = std::filesystem;

struct Text {
  std::string bytes;
  size_t files = 0;  // that it comes from
};

class TextDataset : public Dataset {
 public:
  TextDataset(std::shared_ptr<const Text> text, int64_t sequence, std::string description)
      : text_(std::move(text)), sequence_(sequence), description_(std::move(description)) {}

  int64_t size() const override { return (static_cast<int64_t>(text_->bytes.size()) - 1) / sequence_; }
  SampleType input() const override { return {Shape{sequence_}, DType::kU8}; }
  SampleType target() const override { return {Shape{sequence_}, DType::kU8}; }

  void Read(int64_t index, std::span<std::byte> input, std::span<std::byte> target) const override {
    TWOFOLD_CHECK_GE(index, 0);
    TWOFOLD_CHECK_LT(index, size());
    TWOFOLD_CHECK_EQ(static_cast<int64_t>(input.size()), sequence_);
    TWOFOLD_CHECK_EQ(static_cast<int64_t>(target.size()), sequence_);
    const char* window = text_->bytes.data() + index * sequence_;
    std::memcpy(input.data(), window, input.size());
    std::memcpy(target.data(), window + 1, target.size());
  }

  std::string Describe() const override { return description_; }

 private:
  const std::shared_ptr<const Text> text_;
  const int64_t sequence_;
  const std::string description_;
};

absl::Status AppendFile(const fs::path& path, std::string& text) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  constexpr size_t kAtOnce = 1 << 16;
  for (size_t size = text.size(); in; size = text.size()) {
    text.resize(size + kAtOnce);
    in.read(text.data() + size, kAtOnce);
    text.resize(size + static_cast<size_t>(in.gcount()));
  }
  if (in.eof() && !in.bad()) return absl::OkStatus();
  return InvalidArgument(path.string(), ": cannot be read: ", std::strerror(errno != 0 ? errno : EIO),
                         "; give a file or folder of text that this user may read");
}

// The regular files of a folder, sorted by their path within it.
absl::StatusOr<std::vector<fs::path>> FilesOf(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  fs::recursive_directory_iterator it(folder, error);
  for (const fs::recursive_directory_iterator end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (!it->is_symlink(ignored) && it->is_regular_file(ignored)) files.push_back(it->path());
  }
  if (error) {
    return InvalidArgument(folder.string(), ": cannot be read: ", error.message(),
                           "; give a folder whose content this user may read");
  }
  std::sort(files.begin(), files.end(), [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
  return files;
}

absl::StatusOr<std::vector<fs::path>> FilesAt(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) return FilesOf(path);
  if (fs::is_regular_file(status)) return std::vector<fs::path>{path};
  return InvalidArgument(path, fs::exists(status) ? ": is neither a file nor a folder" : ": does not exist",
                         "; give a file or folder of text, or \"\" for the system's licence texts in ",
                         kDefaultTextPath);
}

absl::StatusOr<std::shared_ptr<const Text>> ReadText(const std::string& where) {
  absl::StatusOr<std::vector<fs::path>> files = FilesAt(where);
  if (!files.ok()) return files.status();
  auto text = std::make_shared<Text>();
  text->files = files->size();
  for (const fs::path& file : *files) {
    if (absl::Status status = AppendFile(file, text->bytes); !status.ok()) return status;
  }
  return text;
}

// Read once: a process that predicts many jobs needs it again and again.
absl::StatusOr<std::shared_ptr<const Text>> DefaultText() {
  static std::mutex mutex;
  static auto& known = *new std::shared_ptr<const Text>;
  const std::lock_guard lock(mutex);
  if (known != nullptr) return known;
  auto text = ReadText(std::string(kDefaultTextPath));
  if (text.ok()) known = *text;
  return text;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> MakeTextDataset(const std::string& path, int64_t sequence) {
  TWOFOLD_CHECK_GE(sequence, 1);
  const std::string where = path.empty() ? std::string(kDefaultTextPath) : path;
  absl::StatusOr<std::shared_ptr<const Text>> text = path.empty() ? DefaultText() : ReadText(path);
  if (!text.ok()) return text.status();
  const auto bytes = static_cast<int64_t>((*text)->bytes.size());
  if (bytes < sequence + 1) {
    return InvalidArgument(where, ": contains ", bytes, " bytes of text in ", (*text)->files,
                           " files, but one sample of sequence length ", sequence, " needs ", sequence + 1,
                           "; give more text or a shorter sequence");
  }
  return std::make_unique<TextDataset>(*text, sequence,
                                       StrCat("text ", where, ": ", (*text)->files, " files, ", bytes, " bytes, ",
                                              (bytes - 1) / sequence, " samples of ", sequence));
}

}  // namespace twofold
