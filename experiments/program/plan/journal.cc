#include "experiments/program/plan/journal.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/hash/hash.h"
#include "core/base/philox.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold::plan {
namespace {

// A name changes nothing that is simulated.
std::string KeyOf(const Question& question) {
  spec::Spec given = question.given;
  given.clear_name();
  std::string text = StrCat(given.ShortDebugString(), " ", question.ranks, " ", question.ranks_per_node);
  return StrCat(StableHash(text));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Journal>> Journal::Open(const std::string& path, const Question& question) {
  const std::string first = nlohmann::ordered_json{{"journal", "twofold plan"}, {"question", KeyOf(question)}}.dump();
  std::vector<Simulated> read;
  bool is_new = true;
  std::streamoff whole = 0;  // bytes of complete lines
  if (std::ifstream in(path, std::ios::binary); in) {
    std::string line;
    while (std::getline(in, line) && !in.eof()) {
      if (is_new && line != first)
        return FailedPrecondition(path, ": is the journal of another plan; use another --out, or remove it");
      if (!is_new) {
        absl::StatusOr<Simulated> simulated = SimulatedFrom(line);
        if (!simulated.ok()) return FailedPrecondition(path, ": ", std::string(simulated.status().message()));
        read.push_back(*std::move(simulated));
      }
      is_new = false;
      whole += static_cast<std::streamoff>(line.size()) + 1;
    }
  }
  std::error_code error;
  if (std::filesystem::exists(path, error)) std::filesystem::resize_file(path, static_cast<uintmax_t>(whole), error);
  std::FILE* const file = std::fopen(path.c_str(), "ab");
  if (file == nullptr) return InvalidArgument("--out: ", path, ": cannot be written: ", std::strerror(errno));
  std::unique_ptr<Journal> journal(new Journal(path, file));
  journal->read_ = std::move(read);
  if (is_new && (std::fputs((first + "\n").c_str(), file) < 0 || std::fflush(file) != 0))
    return InvalidArgument("--out: ", path, ": cannot be written: ", std::strerror(errno));
  return journal;
}

Journal::~Journal() { std::fclose(file_); }

absl::Status Journal::Add(const Simulated& simulated) {
  if (std::fputs((ToJsonLine(simulated) + "\n").c_str(), file_) >= 0 && std::fflush(file_) == 0)
    return absl::OkStatus();
  return Internal(path_, ": cannot be written: ", std::strerror(errno));
}

}  // namespace twofold::plan
