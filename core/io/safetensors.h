// The safetensors format (Hugging Face, github.com/huggingface/safetensors): 8 bytes little-endian, the length n of the header;
// n bytes of JSON, {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ..., "__metadata__": {...}};
// then the elements, row-major and little-endian, without holes. Offsets count from the end of the header.
//
// What is written here is padded so that the elements start at a multiple of 8, as the reference writer does.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/tensor/tensor.h"

namespace twofold::checkpoint {

// One tensor of a file.
struct StoredTensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  int64_t begin = 0;  // byte of the file where its elements start
  int64_t bytes() const { return shape.numel() * ElementSize(dtype); }
};

// What stands before the elements, in bytes, for tensors that lie one after the other in this order. Gives each its `begin`.
std::string SafetensorsHeader(std::span<StoredTensor> tensors, const std::map<std::string, std::string>& metadata = {});

struct SafetensorsHead {
  std::map<std::string, StoredTensor> tensors;  // by name
  std::map<std::string, std::string> metadata;
};

inline constexpr int64_t kSafetensorsPrefix = 8;  // bytes before the JSON

// The length of the JSON, from the file's first bytes. Refuses what the file has no room for.
absl::StatusOr<int64_t> SafetensorsHeaderLength(const std::string& path, std::span<const std::byte> prefix, int64_t file_bytes);

// From the JSON of a file of `file_bytes`. Refuses, naming file and tensor: what is no JSON or has other fields, names given
// twice, types that Twofold does not have, shapes that do not fit their bytes, bytes out of order, with holes, or missing.
// Takes memory in proportion to `json` alone.
absl::StatusOr<SafetensorsHead> ParseSafetensors(const std::string& path, std::string_view json, int64_t file_bytes);

// Both, from a file.
absl::StatusOr<SafetensorsHead> ReadSafetensorsHead(const std::string& path);

// "F32" and back; nullopt: a type that Twofold does not have.
std::string_view SafetensorsType(DType dtype);
std::optional<DType> FromSafetensorsType(std::string_view name);

}  // namespace twofold::checkpoint
