#include "experiments/program/calibrate/fit_messages.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "core/base/status.h"
#include "topologies/build.h"

namespace twofold::calibrate {
namespace {

constexpr double kSmall = 8192;           // bytes; links may pass messages up to this size at once
constexpr double kExchanged = 256 << 10;  // smaller exchanges also cost processor time
constexpr int64_t kNoSwitch = int64_t{1} << 40;

}  // namespace

double MessageFit::Seconds(double bytes) const {
  return latency + std::max(0.0, bytes - free_bytes) / bytes_per_second;
}

// t - latency = x n - y with x = 1 / rate and y = free / rate; each row divided by its t.
MessageFit FitMessages(double latency, const std::vector<MessageTime>& times) {
  double nn = 0, n1 = 0, ones = 0, nt = 0, t1 = 0;
  for (const MessageTime& m : times) {
    if (m.bytes <= kSmall) continue;
    const double w = 1 / (m.seconds * m.seconds), t = m.seconds - latency;
    nn += w * m.bytes * m.bytes, n1 += w * m.bytes, ones += w, nt += w * m.bytes * t, t1 += w * t;
  }
  const double determinant = nn * ones - n1 * n1;
  MessageFit fit{.latency = latency};
  double x = (nt * ones - n1 * t1) / determinant, y = (n1 * nt - nn * t1) / determinant;
  if (y < 0) y = 0, x = nt / nn;  // a message's own cost is part of the latency
  fit.bytes_per_second = 1 / x;
  fit.free_bytes = y / x;
  return fit;
}

double FitAcknowledgements(const MessageFit& fit, const std::vector<MessageTime>& exchanges) {
  double above = 0, below = 0;
  for (const MessageTime& m : exchanges) {
    if (m.bytes < kExchanged) continue;
    const double w = 1 / (m.seconds * m.seconds), alone = fit.Seconds(m.bytes) - fit.latency;
    above += w * alone * (m.seconds - exchanges[0].seconds), below += w * alone * alone;
  }
  return below > 0 ? std::max(0.0, above / below - 1) : 0;
}

absl::StatusOr<cluster::Cluster> ClusterFrom(cluster::Cluster shape, const profile::PointToPoint& m) {
  if (!(m.bytes_per_second() > 0) || !std::isfinite(m.bytes_per_second()) || !(m.free_bytes() >= 0)) {
    return Internal(
        "larger messages took no longer than small ones: the machine is too busy, or the network too fast for so few "
        "rounds; try again, without --quick");
  }
  const double rate = m.bytes_per_second() / 1e9;
  if (shape.has_star()) {
    shape.mutable_star()->set_link_gbytes_per_second(rate);
    shape.mutable_star()->set_latency_us((m.near_latency_s() + m.far_latency_s()) / 2 * 1e6);
  } else if (shape.has_machines() && shape.machines().has_network() && DevicesPerNode(shape).value_or(0) == 1) {
    cluster::Network& network = *shape.mutable_machines()->mutable_network();
    const double near = m.near_latency_s() * 1e6, further = std::max(0.0, m.far_latency_s() * 1e6 - near);
    network.set_link_gbytes_per_second(rate);
    network.set_cable_us(0);  // a hop's latency is the switch's; the rest is the two NICs'
    if (network.has_torus() || network.has_hamming_mesh()) {  // ports are routers: a hop's latency is all theirs
      network.set_switch_us(near);
      network.clear_nic_us();
    } else {
      network.set_switch_us(further / 2);
      network.set_nic_us(std::max(0.0, near - further / 2) / 2);
    }
  } else {
    return InvalidArgument("--cluster: ", shape.name(),
                           " is neither a star nor machines of one device on a network; messages between ranks can "
                           "measure only such a cluster");
  }
  shape.mutable_library()->set_name("open_mpi");
  cluster::OpenMpi& library = *shape.mutable_library()->mutable_open_mpi();
  library.set_gap_us(m.gap_s() * 1e6);
  library.set_free_bytes(m.free_bytes());
  library.set_acknowledgements(m.acknowledgements());
  library.set_eager_bytes(m.switch_seen() ? m.eager_bytes() : kNoSwitch);
  library.set_in_order_bytes(m.in_order_bytes());
  if (absl::Status s = CheckCluster(shape); !s.ok()) return s;
  shape.set_source(absl::StrFormat(
      "links and library: `twofold calibrate --fabric=mpi`, messages between %d ranks; structure as given", m.ranks()));
  return shape;
}

}  // namespace twofold::calibrate
