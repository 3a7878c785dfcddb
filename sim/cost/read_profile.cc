#include "sim/cost/read_profile.h"

#include <cmath>
#include <fstream>
#include <initializer_list>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status.h"
#include "core/comm/communication.h"
#include "core/proto/parse_text.h"
#include "core/tensor/dtype.h"
#include "google/protobuf/message.h"
#include "sim/cost/kernel_table.h"

namespace twofold {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

bool KnownDType(const std::string& dtype) {
  for (const DType t : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kI32, DType::kU8}) {
    if (dtype == DTypeName(t)) return true;
  }
  return false;
}

constexpr std::string_view kTf32 = "tf32";

absl::Status Positive(const std::string& where, const std::string& field, double value) {
  if (value > 0 && std::isfinite(value)) return absl::OkStatus();
  return InvalidArgument(absl::StrFormat("%s.%s must be greater than 0 (got %g)", where, field, value));
}

absl::Status NotNegative(const std::string& where, const std::string& field, double value) {
  if (value >= 0 && std::isfinite(value)) return absl::OkStatus();
  return InvalidArgument(absl::StrFormat("%s.%s must be at least 0 (got %g)", where, field, value));
}

// Applies `check` to these fields of `m`, which are numbers. `present`: absent ones are left out.
absl::Status CheckNumbers(const Message& m, const std::string& where, std::initializer_list<const char*> fields,
                          absl::Status (*check)(const std::string&, const std::string&, double), bool present = false) {
  for (const char* name : fields) {
    const FieldDescriptor* f = m.GetDescriptor()->FindFieldByName(name);
    if (present && !m.GetReflection()->HasField(m, f)) continue;
    const double value = f->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE
                             ? m.GetReflection()->GetDouble(m, f)
                             : static_cast<double>(m.GetReflection()->GetInt64(m, f));
    if (absl::Status s = check(where, name, value); !s.ok()) return s;
  }
  return absl::OkStatus();
}

// Checks a median and its percentiles, which may be absent.
template <class Measured>
absl::Status CheckSpread(const Measured& m, const std::string& where) {
  if (absl::Status s = Positive(where, "seconds", m.seconds()); !s.ok()) return s;
  const bool low_fits = m.low() >= 0 && m.low() <= m.seconds();
  const bool high_fits = !m.has_high() || (m.high() >= m.seconds() && std::isfinite(m.high()));
  if (low_fits && high_fits) return absl::OkStatus();
  return InvalidArgument(
      absl::StrFormat("%s: low, seconds and high must ascend from 0 (got low %g, seconds %g, high %g)", where, m.low(),
                      m.seconds(), m.high()));
}

absl::Status CheckPoint(const profile::Point& p, bool counts_flops, const std::string& where) {
  if (p.dims_size() < 1 || p.dims_size() > 3) {
    return InvalidArgument(where, ".dims must have one to three numbers: m n k, or rows columns (got ", p.dims_size(),
                           ")");
  }
  for (const int64_t d : p.dims()) {
    if (d < 1) return InvalidArgument(where, ".dims must be at least 1 (got ", d, ")");
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
      return InvalidArgument(where, ".operation must be a collective, such as all_reduce (got \"", c.operation(),
                             "\")");
    }
    if (c.ranks() < 2) {
      return InvalidArgument(where, ".ranks must be at least 2 (got ", c.ranks(), ")");
    }
    if (c.points_size() == 0) {
      return InvalidArgument(where, ".points: missing (", c.operation(), "); give at least one");
    }
    for (int p = 0; p < c.points_size(); ++p) {
      const std::string point = absl::StrCat(where, ".points[", p, "]");
      if (absl::Status s = CheckSpread(c.points(p), point); !s.ok()) return s;
      const int64_t before = p == 0 ? 0 : c.points(p - 1).bytes();
      if (c.points(p).bytes() <= before) {
        return InvalidArgument(point, ".bytes must ascend from 1 (got ", c.points(p).bytes(), " after ", before, ")");
      }
    }
  }
  return absl::OkStatus();
}

// Measured figures of a host's links may be absent; defaults are assumed then.
absl::Status CheckSharedMemory(const profile::SharedMemory& links, const std::string& where) {
  const absl::Status figures = CheckNumbers(
      links, where, {"latency_s", "bytes_per_second_core", "bytes_per_second_total"}, Positive, /*present=*/true);
  return figures.ok() ? CheckCollectives(links.collectives(), where) : figures;
}

// Of a kernel that has several factors, each is for longer calls than the one before.
absl::Status CheckOrder(const profile::Training& training, const std::string& where) {
  std::map<std::string, double> longest;
  for (int k = 0; k < training.kernels_size(); ++k) {
    const profile::KernelFactor& f = training.kernels(k);
    const auto [before, first] = longest.emplace(f.kernel(), f.alone_s());
    if (!first && !(before->second > 0 && f.alone_s() > before->second)) {
      return InvalidArgument(where, ".kernels[", k, "] (", f.kernel(),
                             ").alone_s: a kernel with several factors needs ascending times above 0 (got ",
                             f.alone_s(), " after ", before->second, ")");
    }
    before->second = f.alone_s();
  }
  return absl::OkStatus();
}

absl::Status CheckTraining(const profile::Profile& profile, const std::string& path) {
  for (int i = 0; i < profile.training_size(); ++i) {
    const profile::Training& t = profile.training(i);
    const std::string where = absl::StrCat(path, ": training[", i, "]");
    const int64_t before = i == 0 ? 0 : profile.training(i - 1).ranks();
    if (t.ranks() <= before) {
      return InvalidArgument(where, ".ranks must ascend from 1 (got ", t.ranks(), " after ", before, ")");
    }
    if (absl::Status s = Positive(where, "factor", t.factor()); !s.ok()) return s;
    for (int k = 0; k < t.kernels_size(); ++k) {
      const std::string place = absl::StrCat(where, ".kernels[", k, "] (", t.kernels(k).kernel(), ")");
      if (absl::Status s = Positive(place, "factor", t.kernels(k).factor()); !s.ok()) return s;
      if (absl::Status s = NotNegative(place, "alone_s", t.kernels(k).alone_s()); !s.ok()) return s;
    }
    if (absl::Status s = CheckOrder(t, where); !s.ok()) return s;
    if (absl::Status s = CheckNumbers(t, where, {"host_s", "waiting", "core_share"}, NotNegative); !s.ok()) return s;
    if (!(t.low() > 0 && t.low() <= 1 && t.high() >= 1 && std::isfinite(t.high()))) {
      return InvalidArgument(
          absl::StrFormat("%s: as fractions of the expected time, low must be above 0 and at most 1, and high at least "
                          "1 (got low %g, high %g)",
                          where, t.low(), t.high()));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckLoad(const profile::Load& load, const std::string& where) {
  for (const auto& [field, share] :
       {std::pair("taken", load.taken()), std::pair("kept", load.kept()), std::pair("stolen", load.stolen())}) {
    if (!(share >= 0 && share < 1))
      return InvalidArgument(
          absl::StrFormat("%s.%s must be a fraction from 0 to below 1 (got %g)", where, field, share));
  }
  if (!(load.others() >= 0) || !std::isfinite(load.others())) {
    return InvalidArgument(
        absl::StrFormat("%s.others must be a number of processors, at least 0 (got %g)", where, load.others()));
  }
  if (load.repeated() < 0) return InvalidArgument(where, ".repeated must be at least 0 (got ", load.repeated(), ")");
  if (load.fixed_low() > 0 && load.fixed_low() <= 1 && load.fixed_high() >= 1 && std::isfinite(load.fixed_high()))
    return absl::OkStatus();
  return InvalidArgument(
      absl::StrFormat("%s: as fractions of the median, fixed_low must be above 0 and at most 1, and fixed_high at "
                      "least 1 (got fixed_low %g, fixed_high %g)",
                      where, load.fixed_low(), load.fixed_high()));
}

absl::Status CheckLink(const profile::Link& link, const std::string& where) {
  if (absl::Status s = Positive(where, "bytes_per_second", link.bytes_per_second()); !s.ok()) return s;
  return link.has_latency() ? CheckSpread(link.latency(), absl::StrCat(where, ".latency")) : absl::OkStatus();
}

absl::Status CheckProducts(const profile::Products& p, const std::string& where) {
  const std::string types = "f32, tf32, bf16 or f16";
  if (p.dtype() != kTf32 && !KnownDType(p.dtype()))
    return InvalidArgument(where, ".dtype must be ", types, " (got \"", p.dtype(), "\")");
  if (p.tiles().empty()) return InvalidArgument(where, ".tiles: missing (", p.dtype(), "); give at least one");
  for (int i = 0; i < p.tiles_size(); ++i) {
    const std::string tile = absl::StrCat(where, ".tiles[", i, "]");
    if (absl::Status s = CheckNumbers(p.tiles(i), tile, {"rows", "columns", "flops_per_second"}, Positive); !s.ok())
      return s;
  }
  absl::Status s = CheckNumbers(p, where, {"bytes_per_second", "flops_per_second", "most_splits"}, Positive);
  if (s.ok()) s = CheckNumbers(p, where, {"tile_depth", "kernel_s", "high_error"}, NotNegative);
  if (!s.ok()) return s;
  for (const profile::Products::Alignment& a : p.alignments()) {
    const bool divides = a.bytes() == 1 || a.bytes() == 2 || a.bytes() == 4 || a.bytes() == 8;
    if (!divides) {
      return InvalidArgument(where, ".alignments.bytes must be 1, 2, 4 or 8 (got ", a.bytes(),
                             "); rows aligned to 16 bytes count as fully aligned");
    }
    if (absl::Status s = Positive(where + ".alignments", "efficiency", a.efficiency()); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status CheckGpu(const profile::Gpu& gpu, const std::string& where) {
  if (absl::Status s = CheckNumbers(gpu, where, {"memory_bytes", "multiprocessors"}, Positive); !s.ok()) return s;
  if (!gpu.has_launch()) return InvalidArgument(where, ".launch: missing; give the host's time to launch a kernel");
  if (!gpu.has_within())
    return InvalidArgument(where, ".within: missing; give the speed of copies within the GPU's memory");
  // A figure that is present must be above 0; an absent one is unknown.
  std::vector<const FieldDescriptor*> present;
  gpu.GetReflection()->ListFields(gpu, &present);
  for (const FieldDescriptor* f : present) {
    if (f->is_repeated() || f->message_type() == nullptr) continue;
    const Message& m = gpu.GetReflection()->GetMessage(gpu, f);
    const std::string place = absl::StrCat(where, ".", f->name());
    const auto* link = google::protobuf::DynamicCastToGenerated<profile::Link>(&m);
    const auto* timing = google::protobuf::DynamicCastToGenerated<profile::Timing>(&m);
    if (absl::Status s = link != nullptr ? CheckLink(*link, place) : CheckSpread(*timing, place); !s.ok()) return s;
  }
  for (int i = 0; i < gpu.products_size(); ++i) {
    if (absl::Status s = CheckProducts(gpu.products(i), absl::StrCat(where, ".products[", i, "]")); !s.ok()) return s;
  }
  return CheckCollectives(gpu.collectives(), where);
}

}  // namespace

absl::Status CheckProfile(const profile::Profile& profile, const std::string& path) {
  for (int i = 0; i < profile.message_passing_size(); ++i) {
    const profile::MessagePassing& links = profile.message_passing(i);
    const std::string where = absl::StrCat(path, ": message_passing[", i, "]");
    if (links.fabric().empty()) return InvalidArgument(where, ".fabric: missing; give a fabric's name, such as mpi");
    absl::Status s =
        CheckNumbers(links, where, {"latency_s", "bytes_per_second", "bytes_per_second_exchange"}, Positive);
    if (s.ok()) s = CheckCollectives(links.collectives(), where);
    if (s.ok()) s = CheckLoad(links.load(), absl::StrCat(where, ".load"));
    if (!s.ok()) return s;
  }
  if (absl::Status s = CheckLoad(profile.load(), absl::StrCat(path, ": load")); !s.ok()) return s;
  if (absl::Status s = CheckSharedMemory(profile.shared_memory(), absl::StrCat(path, ": shared_memory")); !s.ok())
    return s;
  if (absl::Status s = CheckTraining(profile, path); !s.ok()) return s;
  if (profile.has_gpu()) {
    if (absl::Status s = CheckGpu(profile.gpu(), absl::StrCat(path, ": gpu")); !s.ok()) return s;
  }
  if (profile.kernels_size() == 0 && profile.message_passing_size() == 0) {
    return InvalidArgument(path,
                           ": kernels: missing; a profile written by `twofold calibrate` has one entry per kernel");
  }
  for (int k = 0; k < profile.kernels_size(); ++k) {
    const profile::Kernel& kernel = profile.kernels(k);
    const std::string where = absl::StrCat(path, ": kernels[", k, "]");
    if (kernel.name().empty()) {
      return InvalidArgument(where, ".name: missing; give a kernel's name, such as matmul_nn");
    }
    if (!KnownDType(kernel.dtype()) && !(profile.has_gpu() && kernel.dtype() == kTf32)) {
      return InvalidArgument(where, ".dtype must be f64, f32, bf16, f16, i32 or u8 (got \"", kernel.dtype(), "\")");
    }
    if (kernel.points_size() == 0) {
      return InvalidArgument(where, ".points: missing (", kernel.name(), "); give at least one");
    }
    if (absl::Status s = CheckNumbers(kernel, where, {"launch_s"}, Positive, /*present=*/true); !s.ok()) return s;
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
    return NotFound(path, ": cannot be read; `twofold calibrate --out=", path, "` measures this machine and writes it");
  }
  std::stringstream text;
  text << file.rdbuf();
  return ParseProfile(text.str(), path);
}

absl::StatusOr<profile::Profile> ParseProfile(const std::string& text, const std::string& path) {
  profile::Profile profile;
  if (const absl::Status parsed = ParseText(text, path, profile); !parsed.ok()) return parsed;
  if (absl::Status s = CheckProfile(profile, path); !s.ok()) return s;
  return profile;
}

}  // namespace twofold
