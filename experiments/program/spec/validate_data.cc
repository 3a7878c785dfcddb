#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/base/strings.h"
#include "core/data/text_dataset.h"
#include "experiments/program/spec/models/rules.h"
#include "experiments/program/spec/validate.h"
#include "strategies/from_spec.h"

namespace twofold {
namespace {

namespace fs = std::filesystem;

// Adds a problem unless `path` is a readable file (or folder, where allowed).
void CheckReadable(std::string_view field, const std::string& path, bool folder_too, std::string_view remedy,
                   Problems& problems) {
  const auto refuse = [&](std::string_view why) { problems.Add(field, "\"", path, "\" ", why, "; ", remedy); };
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) return refuse(error && error.value() != ENOENT ? error.message() : "does not exist");
  if (fs::is_directory(status)) {
    if (!folder_too) return refuse("is a folder");
    const fs::directory_iterator entries(path, error);
    if (error) refuse(StrCat("cannot be read: ", error.message()));
    return;
  }
  if (!fs::is_regular_file(status)) return refuse("is neither a file nor a folder");
  errno = 0;
  if (!std::ifstream(path, std::ios::binary)) refuse(StrCat("cannot be read: ", std::strerror(errno)));
}

// The root of the file system, and kernel file systems: reading all their files never ends, or blocks.
bool IsOfTheSystem(const std::string& path) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  if (error) return false;
  const std::string top = real == real.root_path() ? "" : std::next(real.begin())->string();
  return top.empty() || top == "proc" || top == "sys" || (top == "dev" && real.parent_path() == real.root_path());
}

void CheckText(const spec::Spec& spec, Problems& problems) {
  const std::string& path = spec.data().text().path();
  if (!path.empty() && IsOfTheSystem(path)) {
    return problems.Add("data.text.path", "\"", path,
                        "\" belongs to the operating system; give a file or folder of text");
  }
  CheckReadable("data.text.path", path.empty() ? std::string(kDefaultTextPath) : path, /*folder_too=*/true,
                "give a file or folder of text", problems);
  const std::shared_ptr<const Model> model = ModelOf(spec.model());
  if (model == nullptr) return;
  const ModelInput input = model->input();
  if (input.kind == ModelInput::kTokens && input.classes > 0 && input.classes < 256) {
    problems.Add(StrCat(FindModelRules(spec.model().kind_case())->path, ".vocab"), input.classes,
                 " is too small for data.text, whose ids are bytes; use 256 or more");
  }
}

void CheckTokens(const spec::Spec& spec, Problems& problems) {
  const spec::Tokens& tokens = spec.data().tokens();
  constexpr std::string_view kRemedy = "give a .bin file of tokens as llm.c writes them";
  if (tokens.path().empty()) return problems.Add("data.tokens.path", "is missing; ", kRemedy);
  CheckReadable("data.tokens.path", tokens.path(), /*folder_too=*/false, kRemedy, problems);
}

// What a kind of model input is learned from, in words, and the data blocks that provide it.
struct Learns {
  std::string_view what, data;
};
constexpr Learns kLearns[] = {{"sequences of ids", "text or tokens"},
                              {"features", "synthetic, idx or cifar10"},
                              {"images", "synthetic, idx or cifar10"}};  // by ModelInput::Kind

// Pixels count as features too.
void CheckKindFitsModel(const spec::Spec& spec, Problems& problems) {
  const std::shared_ptr<const Model> model = ModelOf(spec.model());
  if (model == nullptr) return;  // already reported
  const spec::Data& data = spec.data();
  const bool words = data.has_text() || data.has_tokens();
  const ModelInput::Kind wanted = model->input().kind;
  if (words == (wanted == ModelInput::kTokens)) return;
  const auto* written =
      data.GetReflection()->GetOneofFieldDescriptor(data, spec::Data::descriptor()->FindOneofByName("kind"));
  problems.Add("data", written->name(), " cannot train model.", model->name(), ", which learns ", kLearns[wanted].what,
               "; use ", kLearns[wanted].data);
}

void CheckIdx(const spec::Idx& idx, Problems& problems) {
  const auto check = [&problems](std::string_view field, const std::string& path) {
    constexpr std::string_view kRemedy = "give a file in MNIST's IDX format";
    if (path.empty()) return problems.Add(field, "is missing; ", kRemedy);
    CheckReadable(field, path, /*folder_too=*/false, kRemedy, problems);
  };
  check("data.idx.images", idx.images());
  check("data.idx.labels", idx.labels());
}

void CheckCifar10(const spec::Cifar10& cifar10, Problems& problems) {
  constexpr std::string_view kRemedy = "give a file or folder of CIFAR-10's binary version";
  if (cifar10.path().empty()) return problems.Add("data.cifar10.path", "is missing; ", kRemedy);
  CheckReadable("data.cifar10.path", cifar10.path(), /*folder_too=*/true, kRemedy, problems);
}

// Synthetic samples come from a table of f32, whose size grows with the model's inputs and classes.
void CheckSynthetic(const spec::Spec& spec, Problems& problems) {
  problems.Whole("data.synthetic.samples", spec.data().synthetic().samples(), 1, int64_t{1} << 31);
  const std::shared_ptr<const Model> model = ModelOf(spec.model());
  if (model == nullptr) return;
  constexpr double kMost = 1 << 30;
  auto check = [&](std::string_view fields, double elements, std::string_view what) {
    const double bytes = elements * 4;
    if (bytes <= kMost) return;
    problems.Add("data.synthetic", what, " of model.", model->name(), "'s ", fields, " would take ",
                 static_cast<int64_t>(std::min(bytes, 9e18)), " bytes; use smaller ones (up to ",
                 static_cast<int64_t>(kMost), " bytes) or data from files");
  };
  const ModelInput input = model->input();
  const auto classes = static_cast<double>(input.classes), length = static_cast<double>(input.length);
  if (input.kind == ModelInput::kFeatures) check("inputs and classes", classes * length, "the map");
  if (input.kind != ModelInput::kImages) return;
  const auto channels = static_cast<double>(input.channels);
  check("channels and classes", classes * channels * 64, "the textures");
  check("height, width and channels", static_cast<double>(input.height) * static_cast<double>(input.width) * channels,
        "a sample");
}

}  // namespace

void CheckData(const spec::Spec& spec, Problems& problems) {
  CheckKindFitsModel(spec, problems);
  if (spec.data().has_text()) CheckText(spec, problems);
  if (spec.data().has_tokens()) CheckTokens(spec, problems);
  if (spec.data().has_idx()) CheckIdx(spec.data().idx(), problems);
  if (spec.data().has_cifar10()) CheckCifar10(spec.data().cifar10(), problems);
  if (spec.data().has_synthetic()) CheckSynthetic(spec, problems);
  const auto check_profile = [&](std::string_view field, const std::string& profile) {
    if (profile.empty()) return;
    CheckReadable(field, profile, /*folder_too=*/false,
                  "give a profile that `twofold calibrate` wrote, or leave the field out", problems);
  };
  check_profile("fabric.simulated.profile", spec.fabric().simulated().profile());
  check_profile("emulated.profile", spec.emulated().profile());
}

}  // namespace twofold
