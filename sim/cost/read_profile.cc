#include "sim/cost/read_profile.h"

#include <cmath>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/comm/communication.h"
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

absl::Status Positive(const std::string& where, const char* field, double value) {
  if (value > 0 && std::isfinite(value)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat("%s.%s: %g; it must be above 0", where, field, value));
}

// A median and its percentiles, which may be absent.
template <class Measured>
absl::Status CheckSpread(const Measured& m, const std::string& where) {
  if (absl::Status s = Positive(where, "seconds", m.seconds()); !s.ok()) return s;
  const bool low_fits = m.low() >= 0 && m.low() <= m.seconds();
  const bool high_fits = !m.has_high() || (m.high() >= m.seconds() && std::isfinite(m.high()));
  if (low_fits && high_fits) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("%s: low %g, seconds %g, high %g; they must ascend from 0", where, m.low(), m.seconds(), m.high()));
}

absl::Status CheckPoint(const profile::Point& p, bool counts_flops, const std::string& where) {
  if (p.dims_size() < 1 || p.dims_size() > 3) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ".dims: ", p.dims_size(), " numbers; one to three are right (m n k, or rows columns)"));
  }
  for (const int64_t d : p.dims()) {
    if (d < 1) return absl::InvalidArgumentError(absl::StrCat(where, ".dims: ", d, "; dimensions are 1 or more"));
  }
  if (absl::Status s = CheckSpread(p, where); !s.ok()) return s;
  return counts_flops ? Positive(where, "flops", p.flops()) : Positive(where, "bytes", p.bytes());
}

template <class Collectives>
absl::Status CheckCollectives(const Collectives& collectives, const std::string& of) {
  for (int i = 0; i < collectives.size(); ++i) {
    const profile::MeasuredCollective& c = collectives[i];
    const std::string where = absl::StrCat(of, ".collectives[", i, "]");
    if (!KindNamed(c.operation())) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ".operation: \"", c.operation(), "\"; a collective's name is right, as all_reduce"));
    }
    if (c.ranks() < 2) {
      return absl::InvalidArgumentError(absl::StrCat(where, ".ranks: ", c.ranks(), "; a collective has two ranks or more"));
    }
    if (c.points_size() == 0) {
      return absl::InvalidArgumentError(absl::StrCat(where, ".points: none (", c.operation(), "); one or more are right"));
    }
    for (int p = 0; p < c.points_size(); ++p) {
      const std::string point = absl::StrCat(where, ".points[", p, "]");
      if (absl::Status s = CheckSpread(c.points(p), point); !s.ok()) return s;
      const int64_t before = p == 0 ? 0 : c.points(p - 1).bytes();
      if (c.points(p).bytes() <= before) {
        return absl::InvalidArgumentError(absl::StrCat(point, ".bytes: ", c.points(p).bytes(), " after ", before, "; sizes must ascend from 1"));
      }
    }
  }
  return absl::OkStatus();
}

// What a host's links were measured to do may be absent, and is assumed then.
absl::Status CheckSharedMemory(const profile::SharedMemory& links, const std::string& where) {
  const auto check = [&](bool there, const char* field, double value) { return there ? Positive(where, field, value) : absl::OkStatus(); };
  if (absl::Status s = check(links.has_latency_s(), "latency_s", links.latency_s()); !s.ok()) return s;
  if (absl::Status s = check(links.has_bytes_per_second_core(), "bytes_per_second_core", links.bytes_per_second_core()); !s.ok()) return s;
  if (absl::Status s = check(links.has_bytes_per_second_total(), "bytes_per_second_total", links.bytes_per_second_total()); !s.ok()) return s;
  return CheckCollectives(links.collectives(), where);
}

absl::Status CheckTraining(const profile::Profile& profile, const std::string& path) {
  for (int i = 0; i < profile.training_size(); ++i) {
    const profile::Training& t = profile.training(i);
    const std::string where = absl::StrCat(path, ": training[", i, "]");
    const int64_t before = i == 0 ? 0 : profile.training(i - 1).ranks();
    if (t.ranks() <= before) {
      return absl::InvalidArgumentError(absl::StrCat(where, ".ranks: ", t.ranks(), " after ", before, "; they must ascend from 1"));
    }
    if (absl::Status s = Positive(where, "factor", t.factor()); !s.ok()) return s;
    for (int k = 0; k < t.kernels_size(); ++k) {
      const std::string place = absl::StrCat(where, ".kernels[", k, "] (", t.kernels(k).kernel(), ")");
      if (absl::Status s = Positive(place, "factor", t.kernels(k).factor()); !s.ok()) return s;
    }
    for (const auto& [field, value] : {std::pair("host_s", t.host_s()), std::pair("waiting", t.waiting()),
                                       std::pair("core_share", t.core_share())}) {
      if (!(value >= 0) || !std::isfinite(value)) {
        return absl::InvalidArgumentError(absl::StrFormat("%s.%s: %g; it must be 0 or more", where, field, value));
      }
    }
    if (!(t.low() > 0 && t.low() <= 1 && t.high() >= 1 && std::isfinite(t.high()))) {
      return absl::InvalidArgumentError(absl::StrFormat("%s: low %g, high %g; shares of the expected time, at most and at least 1", where,
                                                        t.low(), t.high()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckProfile(const profile::Profile& profile, const std::string& path) {
  for (int i = 0; i < profile.message_passing_size(); ++i) {
    const profile::MessagePassing& links = profile.message_passing(i);
    const std::string where = absl::StrCat(path, ": message_passing[", i, "]");
    if (links.fabric().empty()) return absl::InvalidArgumentError(absl::StrCat(where, ".fabric: missing; a fabric's name, as mpi"));
    for (const auto& [field, value] : {std::pair("latency_s", links.latency_s()), std::pair("bytes_per_second", links.bytes_per_second()),
                                       std::pair("bytes_per_second_exchange", links.bytes_per_second_exchange())}) {
      if (absl::Status s = Positive(where, field, value); !s.ok()) return s;
    }
    if (absl::Status s = CheckCollectives(links.collectives(), where); !s.ok()) return s;
  }
  if (absl::Status s = CheckSharedMemory(profile.shared_memory(), absl::StrCat(path, ": shared_memory")); !s.ok()) return s;
  if (absl::Status s = CheckTraining(profile, path); !s.ok()) return s;
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
