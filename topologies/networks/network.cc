#include "topologies/networks/network.h"

#include <utility>

#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold {

absl::Status Check(const Wiring& wiring) {
  if (!(wiring.bandwidth.value() > 0)) {
    return InvalidArgument("link_gbytes_per_second = ", wiring.bandwidth.value() / 1e9, ": must be greater than 0");
  }
  for (const auto& [field, value] : {std::pair("cable_us", wiring.cable), std::pair("switch_us", wiring.switching),
                                     std::pair("nic_us", wiring.nic)}) {
    if (!(value.value() >= 0)) {
      return InvalidArgument(field, " = ", value.value() * 1e6, ": must not be negative");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckNoNic(const Wiring& wiring) {
  if (wiring.nic == Seconds(0)) return absl::OkStatus();
  return InvalidArgument("nic_us = ", wiring.nic.value() * 1e6,
                         ": the ports of this network are routers without NICs; use 0, and switch_us for the routers");
}

absl::Status CheckAtLeast(std::string_view field, int64_t value, int64_t least) {
  if (value >= least) return absl::OkStatus();
  return InvalidArgument(field, " = ", value, ": must be at least ", least);
}

absl::Status CheckCables(std::string_view field, int64_t value, int64_t cables) {
  if (cables <= kMostCables) return absl::OkStatus();
  return InvalidArgument(field, " = ", value, ": the network would have ", cables, " cables; at most ", kMostCables,
                         " are supported");
}

int Bundle(int cables, int each, int radix) {
  for (int m = cables; m > 1; --m) {
    if (cables % m == 0 && int64_t{m} * each <= radix) return m;
  }
  return 1;
}

void PortNetwork::Reserve(int64_t vertices, int64_t cables) {
  vertices_.reserve(static_cast<size_t>(vertices));
  links_.reserve(static_cast<size_t>(2 * cables));
}

std::string PortNetwork::NameOf(std::string_view what, int number) { return StrCat(what, number); }

int PortNetwork::AddSwitch(std::string name, int group, int level) {
  vertices_.push_back({Vertex::kSwitch, std::move(name), -1, group, level});
  return static_cast<int>(vertices_.size()) - 1;
}

int PortNetwork::AddPortCable(int port, int to_switch, BytesPerSecond bandwidth) {
  const std::string& name = vertices_[static_cast<size_t>(port)].name;
  links_.push_back({StrCat(name, ".up"), bandwidth, UpLatency(), port, to_switch});
  links_.push_back({StrCat(name, ".down"), bandwidth, DownLatency(), to_switch, port});
  return static_cast<int>(links_.size()) - 2;
}

int PortNetwork::AddSwitchCable(int a, int b, BytesPerSecond bandwidth, Seconds cable, int number) {
  const std::string& name_a = vertices_[static_cast<size_t>(a)].name;
  const std::string& name_b = vertices_[static_cast<size_t>(b)].name;
  const std::string which = number < 0 ? "" : StrCat(".", number);
  links_.push_back({StrCat(name_a, "-", name_b, which), bandwidth, SwitchLatency(cable), a, b});
  links_.push_back({StrCat(name_b, "-", name_a, which), bandwidth, SwitchLatency(cable), b, a});
  return static_cast<int>(links_.size()) - 2;
}

}  // namespace twofold
