#include "experiments/program/spec/beside_spec.h"

#include <filesystem>
#include <system_error>

namespace twofold {
namespace {

std::string Found(const std::string& name, const std::string& file) {
  const std::filesystem::path path = name;
  std::error_code none;
  if (!name.ends_with(".textproto") || path.is_absolute() || std::filesystem::exists(path, none)) return name;
  const std::filesystem::path beside = std::filesystem::path(file).parent_path() / path;
  return std::filesystem::exists(beside, none) ? std::filesystem::absolute(beside).lexically_normal().string() : name;
}

}  // namespace

void FindFilesBesideSpec(spec::Spec& spec, const std::string& file) {
  if (spec.has_fabric() && spec.fabric().has_simulated()) {
    spec::Simulated& simulated = *spec.mutable_fabric()->mutable_simulated();
    if (simulated.has_cluster()) simulated.set_cluster(Found(simulated.cluster(), file));
    if (simulated.has_profile()) simulated.set_profile(Found(simulated.profile(), file));
  }
  if (!spec.has_emulated()) return;
  spec::Emulated& emulated = *spec.mutable_emulated();
  if (emulated.has_cluster()) emulated.set_cluster(Found(emulated.cluster(), file));
  if (emulated.has_profile()) emulated.set_profile(Found(emulated.profile(), file));
}

}  // namespace twofold
