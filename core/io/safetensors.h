// The safetensors format (Hugging Face, github.com/huggingface/safetensors): 8 bytes with the header length n,
// little-endian; n bytes of JSON, {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...,
// "__metadata__": {...}}; then the elements, row-major and little-endian, without gaps. Offsets count from the end of
// the header.
//
// Files written here are padded so that the elements start at a multiple of 8 bytes, as the reference writer does.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/tensor/tensor.h"

namespace twofold::checkpoint {

// One tensor of a file.
struct StoredTensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  int64_t begin = 0;  // offset in the file of its first element
  int64_t bytes() const { return shape.numel() * ElementSize(dtype); }
};

// The metadata of files written here. PyTorch's readers require "format".
std::map<std::string, std::string> FileMetadata(bool has_values);

// The bytes in front of the elements, for tensors stored consecutively in this order. Sets each tensor's `begin`.
std::string SafetensorsHeader(std::span<StoredTensor> tensors, const std::map<std::string, std::string>& metadata = {});

struct SafetensorsHead {
  std::map<std::string, StoredTensor> tensors;  // by name
  std::map<std::string, std::string> metadata;
};

inline constexpr int64_t kSafetensorsPrefix = 8;  // bytes before the JSON

// The length of the JSON, from the file's first bytes. Refuses a length that exceeds the file.
absl::StatusOr<int64_t> SafetensorsHeaderLength(const std::string& path, std::span<const std::byte> prefix,
                                                int64_t file_bytes);

// Parses the JSON of a file of `file_bytes`. Refuses, naming file and tensor: invalid JSON, unknown fields, duplicate
// names, element types that Twofold does not have, shapes that do not match their bytes, and data that is out of order,
// has gaps or is missing. Memory use is proportional to `json`.
absl::StatusOr<SafetensorsHead> ParseSafetensors(const std::string& path, std::string_view json, int64_t file_bytes);

// Reads both from a file.
absl::StatusOr<SafetensorsHead> ReadSafetensorsHead(const std::string& path);

// "F32" and back. nullopt: a type that Twofold does not have.
std::string_view SafetensorsType(DType dtype);
std::optional<DType> FromSafetensorsType(std::string_view name);

}  // namespace twofold::checkpoint
