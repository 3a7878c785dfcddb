#include "core/data/token_dataset.h"

#include <bit>
#include <cstring>
#include <utility>

#include "core/base/check.h"
#include "core/base/strings.h"
#include "core/data/mapped_file.h"

namespace twofold {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian and mapped as they are");

constexpr int32_t kMagic = 20240520, kVersion = 1;
constexpr int64_t kHeaderBytes = 256 * sizeof(int32_t);

// The number of tokens that the header states, after checking the header against the file.
absl::StatusOr<int64_t> CheckHeader(const std::string& path, const MappedFile& file) {
  int32_t header[3];
  std::memcpy(header, file.data(), sizeof(header));
  if (header[0] != kMagic) {
    return RefuseFile(path, 0, "the magic number must be ", kMagic, " (got ", header[0],
                      ") for GPT-2 tokens as llm.c writes them");
  }
  if (header[1] != kVersion) {
    return RefuseFile(path, 4, "the version must be ", kVersion, " (uint16 tokens; got ", header[1], ")");
  }
  const int64_t stated = header[2], held = (file.size() - kHeaderBytes) / 2;
  if (stated < 0 || file.size() != kHeaderBytes + 2 * stated) {
    return RefuseFile(path, 8, "the header states ", stated, " tokens, but the file's ", file.size(), " bytes hold ",
                      held, (file.size() - kHeaderBytes) % 2 != 0 ? " and a half" : "", "; a file of ", stated,
                      " tokens has ", kHeaderBytes + 2 * stated, " bytes");
  }
  return stated;
}

class TokenDataset : public Dataset {
 public:
  TokenDataset(MappedFile file, std::string path, int64_t tokens, int64_t sequence)
      : file_(std::move(file)), path_(std::move(path)), tokens_(tokens), sequence_(sequence) {}

  int64_t size() const override { return (tokens_ - 1) / sequence_; }
  SampleType input() const override { return {Shape{sequence_}, DType::kI32}; }
  SampleType target() const override { return {Shape{sequence_}, DType::kI32}; }

  void Read(int64_t index, std::span<std::byte> input, std::span<std::byte> target) const override {
    TWOFOLD_CHECK_GE(index, 0);
    TWOFOLD_CHECK_LT(index, size());
    Widen(index * sequence_, input);
    Widen(index * sequence_ + 1, target);
  }

  std::string Describe() const override {
    return StrCat("tokens ", path_, ": ", tokens_, " tokens, ", size(), " samples of ", sequence_);
  }

  uint16_t TokenAt(int64_t i) const {
    uint16_t token;
    std::memcpy(&token, file_.data() + kHeaderBytes + 2 * i, sizeof(token));
    return token;
  }

 private:
  // uint16 tokens from `first` on, as int32.
  void Widen(int64_t first, std::span<std::byte> out) const {
    TWOFOLD_CHECK_EQ(static_cast<int64_t>(out.size()), sequence_ * 4);
    for (int64_t i = 0; i < sequence_; ++i) {
      const int32_t id = TokenAt(first + i);
      std::memcpy(out.data() + 4 * i, &id, sizeof(id));
    }
  }

  const MappedFile file_;
  const std::string path_;
  const int64_t tokens_, sequence_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> MakeTokenDataset(const std::string& path, int64_t sequence, int64_t vocab) {
  TWOFOLD_CHECK_GE(sequence, 1);
  absl::StatusOr<MappedFile> file =
      MappedFile::Open(path, kHeaderBytes, "the header", "give a .bin file of tokens as llm.c writes them");
  if (!file.ok()) return file.status();
  const absl::StatusOr<int64_t> tokens = CheckHeader(path, *file);
  if (!tokens.ok()) return tokens.status();
  if (*tokens < sequence + 1) {
    return RefuseFile(path, 8, "the file has ", *tokens, " tokens, but one sample of sequence length ", sequence,
                      " needs ", sequence + 1, "; give more tokens or a shorter sequence");
  }
  auto dataset = std::make_unique<TokenDataset>(*std::move(file), path, *tokens, sequence);
  for (int64_t i = 0; vocab > 0 && vocab <= UINT16_MAX && i < *tokens; ++i) {
    if (const int64_t token = dataset->TokenAt(i); token >= vocab) {
      return RefuseFile(path, kHeaderBytes + 2 * i, "token ", i, " is ", token, ", but the vocabulary has ", vocab,
                        " entries; use a larger vocabulary or the tokens it was made for");
    }
  }
  return dataset;
}

}  // namespace twofold
