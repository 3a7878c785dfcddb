#include "core/io/safetensors.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/io/block_file.h"
#include "nlohmann/json.hpp"

namespace twofold::checkpoint {
namespace {

using nlohmann::json;

constexpr std::string_view kMetadata = "__metadata__";
constexpr size_t kMostDimensions = 32;
constexpr int64_t kLongestHeader = 100'000'000;  // the limit of the reference reader

// Formats text for a message: shortened, with control characters escaped.
std::string Quoted(std::string_view text) {
  constexpr size_t kLongest = 100;
  const std::string shown = absl::CEscape(absl::string_view(text.data(), std::min(text.size(), kLongest)));
  return StrCat("\"", shown, text.size() > kLongest ? "..." : "", "\"");
}

// The fields of one tensor's object that were parsed so far.
struct Draft {
  std::optional<std::string> dtype;
  std::optional<std::vector<int64_t>> shape, offsets;
};

// Reads the header while it is parsed: memory use is bounded by the input, and nesting depth is limited.
class Handler : public nlohmann::json_sax<json> {
 public:
  struct Found {
    std::string name;
    Draft draft;
  };
  std::vector<Found> found;
  std::map<std::string, std::string> metadata;
  std::string why;  // empty: no error

  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("true or false"); }
  bool number_integer(int64_t value) override { return Number(value); }
  bool number_unsigned(uint64_t value) override {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return Unexpected("a number beyond 2^63");
    return Number(static_cast<int64_t>(value));
  }
  bool number_float(double, const std::string&) override { return Unexpected("a number that is not whole"); }
  bool binary(json::binary_t&) override { return Unexpected("bytes"); }
  bool string(std::string& value) override {
    if (depth_ == 2 && name_ == kMetadata) {
      if (metadata.emplace(field_, std::move(value)).second) return true;
      return Refuse(Quoted(field_), " is given twice");
    }
    if (depth_ != 2 || list_ != nullptr || field_ != "dtype") return Unexpected("a string");
    if (draft().dtype.has_value()) return Refuse("\"dtype\" is given twice");
    draft().dtype = std::move(value);
    return true;
  }
  bool start_object(size_t) override {
    if (depth_ >= 2 || list_ != nullptr) return Unexpected("an object");
    ++depth_;
    if (depth_ == 2 && name_ != kMetadata) found.push_back({name_, {}});
    return true;
  }
  bool key(std::string& name) override {
    (depth_ == 1 ? name_ : field_) = std::move(name);
    if (depth_ == 1 && name_ == kMetadata && std::exchange(has_metadata_, true)) return Refuse("is given twice");
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool start_array(size_t) override {
    if (depth_ != 2 || list_ != nullptr || name_ == kMetadata) return Unexpected("a list");
    std::optional<std::vector<int64_t>>* list = field_ == "shape"          ? &draft().shape
                                                : field_ == "data_offsets" ? &draft().offsets
                                                                           : nullptr;
    if (list == nullptr) return Unexpected("a list");
    if (list->has_value()) return Refuse(Quoted(field_), " is given twice");
    list_ = &list->emplace();
    return true;
  }
  bool end_array() override {
    list_ = nullptr;
    return true;
  }
  bool parse_error(size_t position, const std::string&, const json::exception&) override {
    if (why.empty())
      why = StrCat("the header is not valid JSON at byte ", static_cast<int64_t>(position) + kSafetensorsPrefix);
    return false;
  }

 private:
  Draft& draft() { return found.back().draft; }
  bool Number(int64_t value) {
    if (list_ == nullptr) return Unexpected("a number");
    if (value < 0) return Unexpected("a number below 0");
    if (list_->size() == kMostDimensions) return Refuse(Quoted(field_), " has more than ", kMostDimensions, " numbers");
    list_->push_back(value);
    return true;
  }
  bool Unexpected(std::string_view what) {
    if (depth_ == 0) return Refuse("the header is ", what, ", not an object");
    if (depth_ == 1) return Refuse("is ", what, ", not an object with dtype, shape and data_offsets");
    return Refuse(Quoted(field_), " is ", what,
                  "; a tensor has dtype (a string), shape and data_offsets (lists of numbers)");
  }
  bool Refuse(const auto&... text) {
    why = StrCat(depth_ == 0 ? "" : StrCat("tensor ", Quoted(name_), ": "), text...);
    return false;
  }

  int depth_ = 0;  // nesting depth of objects
  bool has_metadata_ = false;
  std::string name_, field_;
  std::vector<int64_t>* list_ = nullptr;  // the list being filled
};

// The bytes that `shape` takes. nullopt if they exceed `most`, or if the product of its other dimensions overflows 64
// bits.
std::optional<int64_t> BytesOf(const std::vector<int64_t>& shape, int64_t element, int64_t most) {
  int64_t bytes = element;
  bool empty = false;
  for (const int64_t dim : shape) {
    if (dim == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(bytes, dim, &bytes)) {
      return std::nullopt;
    }
  }
  if (empty) return 0;
  return bytes <= most ? std::optional(bytes) : std::nullopt;
}

// Checks one tensor's fields against each other and against the `room` for elements. Returns "" or the error.
std::string CheckDraft(const Draft& draft, int64_t room) {
  if (!draft.dtype || !draft.shape || !draft.offsets) {
    return StrCat("has no ", !draft.dtype ? "dtype" : !draft.shape ? "shape" : "data_offsets");
  }
  const std::optional<DType> dtype = FromSafetensorsType(*draft.dtype);
  if (!dtype) return StrCat("dtype ", Quoted(*draft.dtype), " is not one of F64, F32, BF16, F16, I32, U8");
  if (draft.offsets->size() != 2)
    return StrCat("data_offsets has ", draft.offsets->size(), " numbers; it must have 2, a begin and an end");
  const int64_t begin = (*draft.offsets)[0], end = (*draft.offsets)[1];
  if (begin > end) return StrCat("data_offsets begin at ", begin, " but end before that, at ", end);
  if (end > room) return StrCat("ends at byte ", end, " of the elements, but the file has only ", room);
  const std::optional<int64_t> bytes = BytesOf(*draft.shape, ElementSize(*dtype), room);
  if (bytes == end - begin) return "";
  const std::string shape = Shape(std::span<const int64_t>(*draft.shape)).ToString();
  return StrCat(*draft.dtype, shape, " takes ", bytes ? StrCat(*bytes, " bytes") : "more bytes than the file has",
                ", but its data_offsets hold ", end - begin);
}

// Checks that the tensors are consecutive and fill the file.
absl::Status CheckOrder(const std::string& path, const std::map<std::string, StoredTensor>& tensors, int64_t first,
                        int64_t file_bytes) {
  std::vector<const StoredTensor*> order;
  for (const auto& [name, tensor] : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const StoredTensor* a, const StoredTensor* b) {
    return std::pair(a->begin, a->bytes()) < std::pair(b->begin, b->bytes());
  });
  int64_t at = first;
  for (const StoredTensor* t : order) {
    if (t->begin != at) {
      return InvalidArgument(path, ": tensor ", Quoted(t->name), ": begins at byte ", t->begin - first,
                             " of the elements; ",
                             t->begin > at ? "no tensor covers the bytes from byte "
                                           : "another tensor already covers the bytes up to byte ",
                             at - first);
    }
    at += t->bytes();
  }
  if (at == file_bytes) return absl::OkStatus();
  return InvalidArgument(path, ": has ", file_bytes, " bytes, but its tensors end at byte ", at);
}

}  // namespace

std::string_view SafetensorsType(DType dtype) {
  constexpr std::string_view kNames[] = {"F64", "F32", "BF16", "F16", "I32", "U8"};
  return kNames[static_cast<int>(dtype)];
}

std::optional<DType> FromSafetensorsType(std::string_view name) {
  for (const DType t : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kI32, DType::kU8}) {
    if (SafetensorsType(t) == name) return t;
  }
  return std::nullopt;
}

std::map<std::string, std::string> FileMetadata(bool has_values) {
  std::map<std::string, std::string> metadata = {{"format", "pt"}};
  if (!has_values) metadata["values"] = "not computed";
  return metadata;
}

std::string SafetensorsHeader(std::span<StoredTensor> tensors, const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[std::string(kMetadata)] = metadata;
  int64_t at = 0;
  for (StoredTensor& t : tensors) {
    t.begin = at;
    at += t.bytes();
    TWOFOLD_CHECK(!header.contains(t.name), t.name + " is listed once");
    header[t.name] = {{"dtype", SafetensorsType(t.dtype)},
                      {"shape", std::vector<int64_t>(t.shape.begin(), t.shape.end())},
                      {"data_offsets", {t.begin, at}}};
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  std::string prefix(kSafetensorsPrefix, '\0');
  for (size_t i = 0; i < prefix.size(); ++i) prefix[i] = static_cast<char>(text.size() >> (8 * i));
  for (StoredTensor& t : tensors) t.begin += kSafetensorsPrefix + static_cast<int64_t>(text.size());
  return prefix + text;
}

absl::StatusOr<int64_t> SafetensorsHeaderLength(const std::string& path, std::span<const std::byte> prefix,
                                                int64_t file_bytes) {
  TWOFOLD_CHECK_EQ(static_cast<int64_t>(prefix.size()), kSafetensorsPrefix);
  uint64_t length = 0;
  for (size_t i = prefix.size(); i-- > 0;) length = length << 8 | std::to_integer<uint64_t>(prefix[i]);
  const int64_t most = std::min(file_bytes - kSafetensorsPrefix, kLongestHeader);
  if (length <= static_cast<uint64_t>(most)) return static_cast<int64_t>(length);
  return InvalidArgument(path, ": the header claims a length of ", length, " bytes, but in a file of ", file_bytes,
                         " bytes it can have at most ", most);
}

absl::StatusOr<SafetensorsHead> ParseSafetensors(const std::string& path, std::string_view text, int64_t file_bytes) {
  Handler handler;
  const bool parsed = json::sax_parse(text.begin(), text.end(), &handler);
  if (!parsed || !handler.why.empty()) return InvalidArgument(path, ": ", handler.why);
  const int64_t first = kSafetensorsPrefix + static_cast<int64_t>(text.size());
  SafetensorsHead head;
  head.metadata = std::move(handler.metadata);
  for (auto& [name, draft] : handler.found) {
    const std::string wrong = CheckDraft(draft, file_bytes - first);
    if (!wrong.empty()) return InvalidArgument(path, ": tensor ", Quoted(name), ": ", wrong);
    StoredTensor tensor{name, *FromSafetensorsType(*draft.dtype), Shape(std::span<const int64_t>(*draft.shape)),
                        first + (*draft.offsets)[0]};
    if (!head.tensors.emplace(name, std::move(tensor)).second) {
      return InvalidArgument(path, ": tensor ", Quoted(name), " is given twice");
    }
  }
  if (absl::Status status = CheckOrder(path, head.tensors, first, file_bytes); !status.ok()) return status;
  return head;
}

absl::StatusOr<SafetensorsHead> ReadSafetensorsHead(const std::string& path) {
  absl::StatusOr<PlainFile> file = PlainFile::Open(path);
  if (!file.ok()) return file.status();
  std::array<std::byte, kSafetensorsPrefix> prefix;
  if (absl::Status status = file->Read(0, prefix); !status.ok()) return status;
  const absl::StatusOr<int64_t> length = SafetensorsHeaderLength(path, prefix, file->bytes());
  if (!length.ok()) return length.status();
  std::string text(static_cast<size_t>(*length), '\0');
  if (absl::Status status = file->Read(kSafetensorsPrefix, std::as_writable_bytes(std::span(text))); !status.ok())
    return status;
  return ParseSafetensors(path, text, file->bytes());
}

}  // namespace twofold::checkpoint
