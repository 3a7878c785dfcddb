#include "sim/cost/laws/gpu_tiles.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"

namespace twofold {
namespace {

constexpr GpuTile kAmpere[] = {{256, 128}, {128, 256}, {128, 128}, {256, 64}, {64, 256},
                               {128, 64},  {64, 128},  {64, 64},   {128, 32}, {32, 128}};

std::vector<GpuTile> Fine(int most_elements) {
  std::vector<GpuTile> tiles;
  for (const int rows : {64, 128, 192, 256}) {
    for (int columns = 32; columns <= 256 && rows * columns <= most_elements; columns += 32)
      tiles.push_back({rows, columns});
  }
  return tiles;
}

template <class Law>
absl::Status CheckPositiveFields(const Law& law, std::string_view name, std::set<std::string_view> may_be_zero) {
  const google::protobuf::Descriptor& type = *law.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const google::protobuf::FieldDescriptor& field = *type.field(i);
    if (field.is_repeated() || field.cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_STRING) continue;
    const google::protobuf::Reflection& get = *law.GetReflection();
    const double value = field.cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_INT64
                             ? static_cast<double>(get.GetInt64(law, &field))
                             : get.GetDouble(law, &field);
    const bool zero = may_be_zero.contains(field.name());
    if (value > 0 || (zero && value == 0)) continue;
    return InvalidArgument(name, ".", field.name(), ": ", value,
                           zero ? ": must not be negative" : ": must be greater than 0");
  }
  return absl::OkStatus();
}

absl::Status CheckOne(const cluster::ProductLaw& law) {
  const std::set<std::string_view> dtypes = {"bf16", "fp8", "fp8_block"};
  if (!dtypes.contains(law.dtype()))
    return InvalidArgument("products.dtype: \"", law.dtype(), "\": must be bf16, fp8 or fp8_block");
  std::set<std::string_view> zeros = {"evenness", "host_us", "quantise_ns"};
  if (law.dtype() == "bf16") zeros.insert("quantise_tbytes_per_second");
  return CheckPositiveFields(law, "products", zeros);
}

}  // namespace

std::span<const GpuTile> TilesOf(std::string_view generation) {
  static const auto& hopper = *new std::vector<GpuTile>(Fine(256 * 156));
  static const auto& blackwell = *new std::vector<GpuTile>(Fine(256 * 256));
  if (generation == "volta" || generation == "ampere" || generation == "cdna") return kAmpere;
  if (generation == "hopper") return hopper;
  if (generation == "blackwell") return blackwell;
  return {};
}

absl::Status CheckLaws(const cluster::KernelLaws& laws) {
  if (laws.multiprocessors() < 1)
    return InvalidArgument("multiprocessors: ", laws.multiprocessors(), ": must be 1 or more");
  if (TilesOf(laws.generation()).empty())
    return InvalidArgument("generation: \"", laws.generation(), "\": must be volta, ampere, hopper, blackwell or cdna");
  for (const cluster::ProductLaw& law : laws.products()) {
    if (absl::Status s = CheckOne(law); !s.ok()) return s;
  }
  for (const cluster::AttentionLaw& law : laws.attention()) {
    if (absl::Status s = CheckPositiveFields(law, "attention", {"evenness", "tail"}); !s.ok()) return s;
    int64_t last = 0;
    for (const cluster::AttentionLaw::Width& width : law.widths()) {
      if (width.head_dim() <= last || !(width.factor() > 0))
        return InvalidArgument("attention.widths: ", width.head_dim(), " with factor ", width.factor(),
                               ": widths must ascend from 1 or more, factors must be greater than 0");
      last = width.head_dim();
    }
  }
  for (const auto& [field, value] : {std::pair<const char*, double>{"nn_factor", laws.nn_factor()},
                                     {"nt_factor", laws.nt_factor()},
                                     {"attention_backward_efficiency", laws.attention_backward_efficiency()},
                                     {"grouped_factor", laws.grouped_factor()},
                                     {"grouped_nn_factor", laws.grouped_nn_factor()},
                                     {"grouped_nt_factor", laws.grouped_nt_factor()}}) {
    if (!(value > 0)) return InvalidArgument(field, ": ", value, ": must be greater than 0");
  }
  if (!(laws.training_tflops() >= 0))
    return InvalidArgument("training_tflops: ", laws.training_tflops(), ": must not be negative; 0: that of the law");
  if (!(laws.training_error() >= 0 && laws.training_error() < 1))
    return InvalidArgument("training_error: ", laws.training_error(), ": must be in [0, 1)");
  int64_t last = 0;
  for (const cluster::Kernels::Alignment& a : laws.alignments()) {
    if (a.bytes() <= last || !(a.efficiency() > 0))
      return InvalidArgument("alignments: ", a.bytes(), " bytes with efficiency ", a.efficiency(),
                             ": bytes must ascend from 1, efficiencies must be greater than 0");
    last = a.bytes();
  }
  return absl::OkStatus();
}

}  // namespace twofold
