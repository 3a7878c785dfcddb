#include "experiments/program/calibrate/measure_messages.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <iostream>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "backends/host/processor_use.h"
#include "core/base/philox.h"
#include "experiments/program/calibrate/disturbance.h"
#include "experiments/program/calibrate/fit_messages.h"
#include "experiments/program/calibrate/measure_links.h"
#include "experiments/program/calibrate/samples.h"
#include "experiments/program/calibrate/table.h"
#include "experiments/program/report/load.h"

namespace twofold::calibrate {
namespace {

constexpr Bytes kTiny = Bytes(8), kLarge = MiB(4);
constexpr Bytes kSizes[] = {Bytes(8), Bytes(64), Bytes(512), KiB(1),   KiB(2), KiB(4),
                            KiB(8),   KiB(16),   KiB(64),    KiB(256), MiB(1), MiB(4)};
constexpr Bytes kMostEager = MiB(16);
// Between hosts: sizes that a slow network transfers in seconds.
constexpr Bytes kBetweenHosts[] = {KiB(1), KiB(4), KiB(8), KiB(16), KiB(32), KiB(64), KiB(256), MiB(1)};
constexpr Bytes kMostBetweenHosts = MiB(1);
constexpr Seconds kRepeatsARound = Seconds(1.0 / 3);  // 10 s for the 31 rounds that are usual
constexpr auto kLate = std::chrono::milliseconds(4);  // the receiver's delay

class MessageTimer {
 public:
  MessageTimer(RankContext& ctx, int rounds, Bytes most = kMostEager)
      : ctx_(ctx),
        most_(most),
        world_(ctx.world()),
        beside_(world_.Split(0, world_.rank(), "beside")),
        rounds_(rounds) {
    Device& device = ctx.device();
    for (Tensor* t : {&out_, &in_}) {
      *t = device.NewTensor(Shape{most_.value() + 1}, DType::kU8, Category::kCommunication);
      device.Launch(device.compute(), ops::Fill{.out = *t, .value = 0});
    }
  }

  profile::MessagePassing Measure() {
    profile::MessagePassing links;
    links.set_ranks(world_.size());
    const Spread latency = SpreadOf(PingPong(kTiny));
    links.set_latency_s(latency.median), links.set_latency_low_s(latency.low), links.set_latency_high_s(latency.high);
    for (const Bytes size : kSizes) {
      profile::MessagePoint& p = *links.add_points();
      p.set_bytes(size.value());
      p.set_seconds(SpreadOf(PingPong(size)).median);
    }
    const Spread large = SpreadOf(PingPong(kLarge));
    auto rate = [&](double seconds) {
      return static_cast<double>(kLarge.value()) / std::max(seconds - latency.median, 1e-9);
    };
    links.set_bytes_per_second(rate(large.median));
    links.set_bandwidth_low(rate(large.high)), links.set_bandwidth_high(rate(large.low));
    links.set_overhead_s(SpreadOf(Burst()).median);
    links.set_bytes_per_second_exchange(rate(SpreadOf(Exchange()).median));
    links.set_eager_bytes(LargestEager().value());
    const Samples collectives = MeasureCollectives(ctx_, rounds_);
    for (profile::MeasuredCollective& c : CollectivesFrom(collectives, 0, world_.size()))
      *links.add_collectives() = std::move(c);
    return links;
  }

  profile::PointToPoint MeasureBetweenHosts() {
    profile::PointToPoint links;
    links.set_ranks(world_.size());
    peer_ = world_.size() - 1;
    links.set_far_latency_s(SpreadOf(PingPong(kTiny)).median);
    peer_ = 1;
    const double latency = SpreadOf(PingPong(kTiny)).median;
    links.set_near_latency_s(latency);
    std::vector<MessageTime> times, exchanges;
    auto add = [](std::vector<MessageTime>& to, profile::MessagePoint& point, Bytes size,
                  const std::vector<double>& samples) {
      point.set_bytes(size.value()), point.set_seconds(SpreadOf(samples).median);
      to.push_back({static_cast<double>(size.value()), point.seconds()});
    };
    for (const Bytes size : kBetweenHosts) add(times, *links.add_points(), size, PingPong(size));
    for (const Bytes size : kBetweenHosts) add(exchanges, *links.add_exchanges(), size, Exchange(size));
    const MessageFit fit = FitMessages(latency, times);
    links.set_bytes_per_second(fit.bytes_per_second), links.set_free_bytes(fit.free_bytes);
    links.set_acknowledgements(FitAcknowledgements(fit, exchanges));
    links.set_gap_s(SpreadOf(Burst()).median);
    const Bytes eager = LargestEager();
    links.set_eager_bytes(eager.value()), links.set_switch_seen(eager < most_);
    links.set_in_order_bytes(world_.size() > 2 ? LargestInOrder(fit).value() : 0);
    return links;
  }

 private:
  Tensor Out(Bytes size) { return out_.Slice(0, size.value()); }
  Tensor In(Bytes size) { return in_.Slice(0, size.value()); }
  bool measured() const { return world_.rank() == 0 || world_.rank() == peer_; }
  int other() const { return world_.rank() == 0 ? peer_ : 0; }
  void Send(Bytes size) { world_.Send(Out(size), other()).Wait(); }
  void Recv(Bytes size) {
    Tensor in = In(size);
    world_.Recv(in, other()).Wait();
  }
  double Seconds(const std::function<void()>& f) {
    const twofold::Seconds start = ctx_.clock().Now();
    f();
    return (ctx_.clock().Now() - start).value();
  }
  // One sample per round; all ranks start every round together.
  std::vector<double> Rounds(const std::function<double()>& round) {
    std::vector<double> samples;
    round();  // first touch
    for (int i = 0; i < rounds_; ++i) {
      ctx_.CheckInterrupt();
      world_.Barrier().Wait();
      samples.push_back(round());
    }
    return samples;
  }

  // Half a round trip.
  std::vector<double> PingPong(Bytes size) {
    const int trips = size <= KiB(16) ? 50 : size <= MiB(1) ? 8 : 2;
    return Rounds([&] {
      if (!measured()) return 0.0;
      return Seconds([&] {
               for (int i = 0; i < trips; ++i) {
                 if (world_.rank() == 0)
                   Send(size), Recv(size);
                 else
                   Recv(size), Send(size);
               }
             }) /
             (2 * trips);
    });
  }

  // The cost of each small message: they are sent back to back, and only the last one is waited for.
  std::vector<double> Burst() {
    constexpr int kMessages = 100;
    return Rounds([&] {
      if (!measured()) return 0.0;
      return Seconds([&] {
               if (world_.rank() == 0) {
                 Work last;
                 for (int i = 0; i < kMessages; ++i) last = world_.Send(Out(kTiny), 1);
                 last.Wait();
                 Recv(kTiny);  // confirms that all have arrived
               } else {
                 for (int i = 0; i < kMessages; ++i) Recv(kTiny);
                 Send(kTiny);
               }
             }) /
             kMessages;
    });
  }

  // All ranks send to the next rank and receive from the previous one, at once. A barrier releases some ranks earlier
  // than others; after some exchanges all are in step.
  std::vector<double> Exchange(Bytes size = kLarge) {
    const int n = world_.size(), next = (world_.rank() + 1) % n, previous = (world_.rank() + n - 1) % n;
    const int times = size <= KiB(16) ? 20 : size < MiB(1) ? 8 : 2;
    auto exchange = [&](Bytes bytes) {
      const P2p both[] = {{P2p::kSend, Out(bytes), next}, {P2p::kRecv, In(bytes), previous}};
      world_.Batch(both).Wait();
    };
    return Rounds([&] {
      for (int i = 0; i < 2 * n; ++i) exchange(kTiny);
      return Seconds([&] {
               for (int i = 0; i < times; ++i) exchange(size);
             }) /
             times;
    });
  }

  // Two messages of one size sent at once, to ranks 1 and 2: seconds until rank 1 confirms the arrival of its own.
  std::vector<double> FirstOfTwo(Bytes size) {
    return Rounds([&] {
      const int rank = world_.rank();
      if (rank > 2) return 0.0;
      return Seconds([&] {
        if (rank == 0) {
          const P2p both[] = {{P2p::kSend, Out(size), 1}, {P2p::kSend, Out(size), 2}};
          world_.Batch(both).Wait();
          Tensor said = In(kTiny);
          world_.Recv(said, 1).Wait();
        } else {
          Tensor in = In(size);
          world_.Recv(in, 0).Wait();
          if (rank == 1) world_.Send(Out(kTiny), 0).Wait();
        }
      });
    });
  }

  // If messages are sent in order, the first arrives after its own bytes; if side by side, after the bytes of both.
  // Sizes double; all ranks use rank 0's verdict.
  Bytes LargestInOrder(const MessageFit& fit) {
    Bytes largest(0);
    for (Bytes size = KiB(8); size <= most_; size = Bytes(2 * size.value())) {
      const double bytes = static_cast<double>(size.value()), seconds = SpreadOf(FirstOfTwo(size)).median;
      if (!Agreed(seconds < (fit.Seconds(bytes) + fit.Seconds(2 * bytes)) / 2 + fit.latency)) break;
      largest = size;
    }
    return largest;
  }

  // Whether a send of this size completes before the receiver posts its receive. Meanwhile the receiver waits for a
  // message of another group, because some libraries accept arriving data only inside calls.
  bool IsEager(Bytes size) {
    bool eager = false;  // one early completion is proof: the receiver's delay begins after the sender's clock
    for (int i = 0; i < 7; ++i) {
      Tensor go = in_.Slice(size.value(), 1), over = in_.Slice(size.value(), 1);
      world_.Barrier().Wait();
      if (world_.rank() == 0) {
        const double seconds = Seconds([&] {
          beside_->Send(go, 1).Wait();
          Send(size);
        });
        eager = eager || seconds < std::chrono::duration<double>(kLate).count();
        beside_->Send(over, 1).Wait();
      } else if (world_.rank() == 1) {
        beside_->Recv(go, 0).Wait();
        Work meanwhile = beside_->Recv(over, 0);
        std::this_thread::sleep_for(kLate);
        Recv(size);
        meanwhile.Wait();
      }
    }
    return Agreed(eager);
  }

  // Broadcasts rank 0's value.
  bool Agreed(bool own) {
    Tensor verdict = Out(Bytes(1));
    *verdict.data<uint8_t>() = own;
    world_.Broadcast(verdict, 0).Wait();
    return *verdict.data<uint8_t>() != 0;
  }

  // To a precision of 16 bytes; zero if even the smallest message waits for the receiver.
  Bytes LargestEager() {
    int64_t yes = 0, no = 64;
    while (no <= most_.value() && IsEager(Bytes(no))) yes = no, no *= 2;
    if (no > most_.value()) return Bytes(yes);
    while (no - yes > 16) {
      const int64_t middle = (yes + no) / 2;
      (IsEager(Bytes(middle)) ? yes : no) = middle;
    }
    return Bytes(yes);
  }

  RankContext& ctx_;
  const Bytes most_;  // size of the largest message
  ProcessGroup& world_;
  const std::unique_ptr<ProcessGroup> beside_;
  const int rounds_;
  int peer_ = 1;  // the destination of rank 0's messages
  Tensor out_, in_;
};

// Processor use of all ranks, gathered on each. Hosts are identified by a hash of their names.
std::vector<report::ProcessorUse> Gathered(RankContext& ctx, const report::ProcessorUse& own) {
  const auto host = static_cast<double>(StableHash(own.host()) >> 12);  // 52 bits
  const std::array<double, 8> mine = {host,         static_cast<double>(own.process()),
                                      own.wall(),   own.ran(),
                                      own.waited(), own.process_ran(),
                                      own.busy(),   own.stolen()};
  Device& device = ctx.device();
  const auto ranks = static_cast<size_t>(ctx.world().size());
  Tensor shard = device.NewTensor(Shape{std::ssize(mine)}, DType::kF64, Category::kOther);
  Tensor all = device.NewTensor(Shape{std::ssize(mine) * ctx.world().size()}, DType::kF64, Category::kOther);
  device.Upload(shard, [&](std::span<std::byte> bytes) { std::memcpy(bytes.data(), mine.data(), bytes.size()); });
  ctx.world().AllGather(all, shard).Wait();
  std::vector<double> values(mine.size() * ranks);
  device.Download(all, std::as_writable_bytes(std::span(values)));
  std::vector<report::ProcessorUse> uses(ranks);
  for (size_t r = 0; r < ranks; ++r) {
    const double* v = &values[r * mine.size()];
    report::ProcessorUse& use = uses[r];
    if (v[2] <= 0) continue;  // unknown on that rank
    use.set_host(absl::StrFormat("%.0f", v[0])), use.set_process(static_cast<int64_t>(v[1])), use.set_wall(v[2]),
        use.set_ran(v[3]), use.set_waited(v[4]);
    use.set_process_ran(v[5]), use.set_busy(v[6]), use.set_stolen(v[7]);
  }
  return uses;
}

}  // namespace

std::string MeasureMessages(RankContext& ctx, int rounds) {
  LoadLog log(kRepeatsARound * rounds, [&ctx](const std::string& line) {
    if (ctx.rank() == 0) std::cerr << line << "\n";
  });
  using Outcome = LoadLog::Outcome<profile::MessagePassing>;
  // All ranks see the same load and time, so they agree on whether to measure again.
  absl::StatusOr<profile::MessagePassing> links =
      log.LeastDisturbed<profile::MessagePassing>(LoadLog::kLinks, "messages", [&]() -> absl::StatusOr<Outcome> {
        const host::ProcessorWatch watch;
        profile::MessagePassing measured = MessageTimer(ctx, rounds).Measure();
        const std::vector<report::ProcessorUse> uses = Gathered(ctx, watch.Use());
        double wall = 0;
        for (const report::ProcessorUse& use : uses) wall = std::max(wall, use.wall());
        return Outcome{std::move(measured), wall, LoadOf(uses)};
      });
  if (ctx.rank() != 0) return "";
  if (const profile::Load load = log.Sum({1}); load.has_taken()) *links->mutable_load() = load;
  return links->SerializeAsString();
}

std::string MeasureBetweenHosts(RankContext& ctx, int rounds) {
  const profile::PointToPoint links = MessageTimer(ctx, rounds, kMostBetweenHosts).MeasureBetweenHosts();
  return ctx.rank() == 0 ? links.SerializeAsString() : std::string();
}

std::string PointToPointText(const profile::PointToPoint& links) {
  std::string text = absl::StrFormat(
      "%d ranks: latency %.1f µs (rank 0 to 1) and %.1f µs (0 to %d), %.3f MB/s after %.0f bytes, %.2f %% less when "
      "all send and receive, %.1f µs between messages of a burst, eager to %s%d bytes, in order to %d bytes\n",
      links.ranks(), links.near_latency_s() * 1e6, links.far_latency_s() * 1e6, links.ranks() - 1,
      links.bytes_per_second() / 1e6, links.free_bytes(), links.acknowledgements() * 100, links.gap_s() * 1e6,
      links.switch_seen() ? "" : "at least ", links.eager_bytes(), links.in_order_bytes());
  const MessageFit fit{links.near_latency_s(), links.free_bytes(), links.bytes_per_second()};
  text += absl::StrFormat("%12s %14s %10s %18s\n", "bytes", "half trip", "by fit", "all at once");
  for (int i = 0; i < links.points_size(); ++i) {
    const profile::MessagePoint& p = links.points(i);
    text += absl::StrFormat("%12d %11.2f µs %+8.1f %% %15.2f µs\n", p.bytes(), p.seconds() * 1e6,
                            100 * (fit.Seconds(static_cast<double>(p.bytes())) / p.seconds() - 1),
                            links.exchanges(i).seconds() * 1e6);
  }
  return text;
}

std::string MessageTableText(const profile::MessagePassing& links) {
  std::string text = absl::StrFormat(
      "%s between %d ranks: latency %.2f µs (%.2f to %.2f), %.2f µs per small message, %.2f GB/s alone (%.2f to %.2f), "
      "%.2f GB/s each when all send at once, eager to %d bytes\n",
      links.fabric(), links.ranks(), links.latency_s() * 1e6, links.latency_low_s() * 1e6, links.latency_high_s() * 1e6,
      links.overhead_s() * 1e6, links.bytes_per_second() / 1e9, links.bandwidth_low() / 1e9,
      links.bandwidth_high() / 1e9, links.bytes_per_second_exchange() / 1e9, links.eager_bytes());
  text += absl::StrFormat("%12s %14s %12s\n", "bytes", "half trip", "GB/s");
  for (const profile::MessagePoint& p : links.points()) {
    text += absl::StrFormat("%12d %11.2f µs %12.3f\n", p.bytes(), p.seconds() * 1e6,
                            static_cast<double>(p.bytes()) / p.seconds() / 1e9);
  }
  for (const profile::MeasuredCollective& c : links.collectives()) text += CollectiveTableText(c);
  return text + LoadTableText(links.load());
}

}  // namespace twofold::calibrate
