#include "sim/cost/read_profile.h"

#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/tensor/dtype.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "sim/cost/kernel_table.h"

namespace twofold {
namespace {

class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (text_.empty()) text_ = absl::StrCat(line + 1, ":", column + 1, ": ", message);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

bool KnownDType(const std::string& dtype) {
  for (const DType t : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kI32, DType::kU8}) {
    if (dtype == DTypeName(t)) return true;
  }
  return false;
}

absl::Status CheckPoint(const profile::Point& p, bool counts_flops, const std::string& where) {
  if (p.dims_size() < 1 || p.dims_size() > 3) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ".dims: ", p.dims_size(), " numbers; one to three are right (m n k, or rows columns)"));
  }
  for (const int64_t d : p.dims()) {
    if (d < 1) return absl::InvalidArgumentError(absl::StrCat(where, ".dims: ", d, "; dimensions are 1 or more"));
  }
  const auto positive = [&](const char* field, double value) {
    if (value > 0) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrFormat("%s.%s: %g; it must be above 0", where, field, value));
  };
  if (absl::Status s = positive("seconds", p.seconds()); !s.ok()) return s;
  if (p.low() > p.seconds() || (p.has_high() && p.high() < p.seconds())) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: low %g, seconds %g, high %g; they must ascend", where, p.low(), p.seconds(), p.high()));
  }
  return counts_flops ? positive("flops", p.flops()) : positive("bytes", p.bytes());
}

}  // namespace

absl::Status CheckProfile(const profile::Profile& profile, const std::string& path) {
  for (int i = 0; i < profile.message_passing_size(); ++i) {
    const profile::MessagePassing& links = profile.message_passing(i);
    const std::string where = absl::StrCat(path, ": message_passing[", i, "]");
    if (links.fabric().empty()) return absl::InvalidArgumentError(absl::StrCat(where, ".fabric: missing; a fabric's name, as mpi"));
    for (const auto& [field, value] : {std::pair("latency_s", links.latency_s()), std::pair("bytes_per_second", links.bytes_per_second()),
                                       std::pair("bytes_per_second_exchange", links.bytes_per_second_exchange())}) {
      if (!(value > 0)) return absl::InvalidArgumentError(absl::StrFormat("%s.%s: %g; it must be above 0", where, field, value));
    }
  }
  if (profile.kernels_size() == 0 && profile.message_passing_size() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": kernels: none; a profile as `twofold calibrate` writes it has one entry a kernel"));
  }
  for (int k = 0; k < profile.kernels_size(); ++k) {
    const profile::Kernel& kernel = profile.kernels(k);
    const std::string where = absl::StrCat(path, ": kernels[", k, "]");
    if (kernel.name().empty()) {
      return absl::InvalidArgumentError(absl::StrCat(where, ".name: missing; a kernel's name, as matmul_nn"));
    }
    if (!KnownDType(kernel.dtype())) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ".dtype: \"", kernel.dtype(), "\"; one of f64, f32, bf16, f16, i32, u8 is right"));
    }
    if (kernel.points_size() == 0) {
      return absl::InvalidArgumentError(absl::StrCat(where, ".points: none (", kernel.name(), "); one or more are right"));
    }
    for (int p = 0; p < kernel.points_size(); ++p) {
      const std::string place = absl::StrCat(where, " (", kernel.name(), ").points[", p, "]");
      if (absl::Status s = CheckPoint(kernel.points(p), CountsFlops(kernel.name()), place); !s.ok()) return s;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<profile::Profile> ReadProfile(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    return absl::NotFoundError(
        absl::StrCat(path, ": cannot be read; `twofold calibrate --out=", path, "` measures this machine and writes it"));
  }
  std::stringstream text;
  text << file.rdbuf();
  profile::Profile profile;
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(text.str(), &profile)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ":", error.text(), " (a profile is text, see core/proto/profile.proto)"));
  }
  if (absl::Status s = CheckProfile(profile, path); !s.ok()) return s;
  return profile;
}

}  // namespace twofold
