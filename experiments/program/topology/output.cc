#include "experiments/program/topology/output.h"

#include <cstdio>
#include <fstream>
#include <ios>

#include "absl/strings/str_format.h"
#include "core/base/status.h"
#include "experiments/program/report/files.h"

namespace twofold::topology {
namespace {

bool ToStdout(const std::string& out) { return out.empty() || out == "-"; }

}  // namespace

absl::Status CheckOut(const std::string& out) { return ToStdout(out) ? absl::OkStatus() : CheckOutFile("--out", out); }

absl::Status Write(const std::string& path, const std::string& text, bool quiet) {
  if (ToStdout(path)) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return absl::OkStatus();
  }
  std::ofstream file(path, std::ios::binary);
  if (!(file << text) || !file.flush()) return Internal("--out=", path, ": cannot be written");
  if (!quiet) std::printf("%s\n", path.c_str());
  return absl::OkStatus();
}

std::string RateShort(BytesPerSecond rate) {
  return rate.value() >= 1e12 ? absl::StrFormat("%.4g TB/s", rate.value() / 1e12)
                              : absl::StrFormat("%.4g GB/s", rate.value() / 1e9);
}

}  // namespace twofold::topology
