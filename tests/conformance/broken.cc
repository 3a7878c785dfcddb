#include "tests/conformance/broken.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/errors.h"

namespace twofold::conformance {
namespace {

constexpr int64_t kLong = 1000;  // elements from which a result has a tail to drop

using Data = std::vector<std::byte>;

size_t Size(const Tensor& t) { return static_cast<size_t>(t.bytes().value()); }
Data Read(Device& device, const Tensor& t) {
  Data data(Size(t));
  device.Download(t, data);
  return data;
}
void Write(Device& device, Tensor t, const Data& data) {
  if (data.empty()) return;
  device.Upload(t, [&data](std::span<std::byte> to) { std::memcpy(to.data(), data.data(), data.size()); });
}

std::vector<Tensor> Outputs(const Communication& c) {
  std::vector<Tensor> outputs;
  if (!c.out.empty()) outputs.push_back(c.out);
  for (const P2p& m : c.batch) {
    if (m.kind == P2p::kRecv) outputs.push_back(m.tensor);
  }
  return outputs;
}

class BrokenWork;

// What the works of one group share.
struct State {
  ProcessGroup& inner;
  Device& device;
  const Fault fault;
  std::shared_ptr<BrokenWork> held_back = nullptr;                // kSwappedOrder: to be forwarded after the next one
  std::map<std::pair<Communication::Kind, size_t>, Data> last{};  // kStaleResult: by kind and size
  std::vector<std::pair<Tensor, Data>> late{};                    // kLateCompletion
};

class BrokenWork : public Work::State {
 public:
  BrokenWork(std::shared_ptr<conformance::State> state, const Communication& c)
      : state_(std::move(state)), c_(state_->fault == Fault::kLateCompletion ? c : c.Borrowed()) {}

  void Forward();
  // kSwappedOrder: `earlier` was forwarded after this. Who waits for this may free the operands of both.
  void Overtakes(std::shared_ptr<BrokenWork> earlier) { overtaken_ = std::move(earlier); }

  void Wait() override {
    ForwardHeldBack();
    if (overtaken_ != nullptr) overtaken_->inner_.Wait();
    inner_.Wait();
    Deliver();
  }
  void WaitOn(Stream& stream) override {
    ForwardHeldBack();
    if (overtaken_ != nullptr) overtaken_->inner_.WaitOn(stream);
    inner_.WaitOn(stream);
    Deliver();
  }
  bool Test() override {
    ForwardHeldBack();
    if (overtaken_ != nullptr && !overtaken_->inner_.Test()) return false;
    if (!inner_.Test()) return false;
    Deliver();
    return true;
  }
  size_t WaitAny(std::span<Work::State* const> states) override {
    std::vector<Work> works;
    for (Work::State* s : states) {
      static_cast<BrokenWork*>(s)->ForwardHeldBack();
      works.push_back(static_cast<BrokenWork*>(s)->inner_);
    }
    const size_t done = Work::WaitAny(works);
    static_cast<BrokenWork*>(states[done])->Wait();
    return done;
  }
  int source() const override {
    const int source = inner_.source();
    return state_->fault == Fault::kWrongSource && source >= 0 ? (source + 1) % state_->inner.size() : source;
  }

 private:
  void ForwardHeldBack() {
    if (const auto work = std::exchange(state_->held_back, nullptr)) work->Forward();
  }
  Work Start();
  void Deliver();
  void Spoil(const Tensor& out, const Data& before);

  const std::shared_ptr<conformance::State> state_;
  Communication c_;  // borrowed operands; what comes late needs them longer than their owner
  Work inner_;
  std::shared_ptr<BrokenWork> overtaken_;
  std::vector<Data> before_;  // what the outputs held
  bool delivered_ = false;
};

void BrokenWork::Forward() {
  const bool reduces = c_.kind == Communication::kAllReduce || c_.kind == Communication::kReduce ||
                       c_.kind == Communication::kReduceScatter;
  if (state_->fault == Fault::kMissingRank && reduces && state_->inner.rank() == state_->inner.size() - 1) {
    Write(state_->device, c_.in, Data(Size(c_.in)));
  }
  for (const Tensor& out : Outputs(c_)) before_.push_back(Read(state_->device, out));
  inner_ = Start();
}

Work BrokenWork::Start() {
  ProcessGroup& group = state_->inner;
  Communication& c = c_;
  switch (c.kind) {
    case Communication::kSend: return group.Send(c.in, c.peer, c.tag);
    case Communication::kRecv: return group.Recv(c.out, c.peer, c.tag);
    case Communication::kBatch: return group.Batch(c.batch);
    case Communication::kAllReduce: return group.AllReduce(c.out, c.op);
    case Communication::kAllGather: return group.AllGather(c.out, c.in);
    case Communication::kReduceScatter: return group.ReduceScatter(c.out, c.in, c.op);
    case Communication::kBroadcast: return group.Broadcast(c.out, c.peer);
    case Communication::kReduce: return group.Reduce(c.out, c.op, c.peer);
    case Communication::kGather: return group.Gather(c.out, c.in, c.peer);
    case Communication::kScatter: return group.Scatter(c.out, c.in, c.peer);
    case Communication::kAllToAll: return group.AllToAll(c.out, c.in);
    case Communication::kAllToAllV: return group.AllToAllV(c.out, c.out_counts, c.in, c.in_counts);
    case Communication::kBarrier: return state_->fault == Fault::kOpenBarrier ? Work() : group.Barrier();
  }
  return Work();
}

void BrokenWork::Deliver() {
  if (std::exchange(delivered_, true)) return;
  const std::vector<Tensor> outputs = Outputs(c_);
  for (size_t i = 0; i < outputs.size(); ++i) Spoil(outputs[i], before_[i]);
}

void BrokenWork::Spoil(const Tensor& out, const Data& before) {
  Device& device = state_->device;
  switch (state_->fault) {
    case Fault::kSwappedBlocks:
      if (c_.kind == Communication::kAllGather || c_.kind == Communication::kGather ||
          c_.kind == Communication::kAllToAll) {
        Data data = Read(device, out);
        const auto second = data.begin() + static_cast<std::ptrdiff_t>(data.size()) / state_->inner.size();
        std::swap_ranges(data.begin(), second, second);
        Write(device, out, data);
      }
      return;
    case Fault::kDroppedTail:
      if (out.numel() >= kLong) {
        Data data = Read(device, out);
        const auto element = static_cast<std::ptrdiff_t>(ElementSize(out.dtype()));
        std::copy(before.end() - element, before.end(), data.end() - element);
        Write(device, out, data);
      }
      return;
    case Fault::kStaleResult: {
      Data right = Read(device, out);
      const auto last = state_->last.try_emplace({c_.kind, Size(out)}, right).first;
      Write(device, out, std::exchange(last->second, std::move(right)));
      return;
    }
    case Fault::kLateCompletion: state_->late.emplace_back(out, Read(device, out)); return Write(device, out, before);
    case Fault::kNone:
    case Fault::kSwappedOrder:
    case Fault::kMissingRank:
    case Fault::kWrongSource:
    case Fault::kOpenBarrier: return;
  }
}

// The base class wants counts that outlive it; those that tests look at are the inner group's.
struct OwnCounts {
  CommunicationStats counts;
};

class BrokenGroup : private OwnCounts, public ProcessGroup {
 public:
  BrokenGroup(ProcessGroup& inner, std::unique_ptr<ProcessGroup> owned, Device& device, Fault fault)
      : ProcessGroup(inner.name(), inner.rank(), inner.ranks(), device, counts),
        owned_(std::move(owned)),
        state_(std::make_shared<State>(State{.inner = inner, .device = device, .fault = fault})) {}
  ~BrokenGroup() override {
    try {
      if (state_->held_back != nullptr) state_->held_back->Forward();
    } catch (const RankFailure&) {  // the run is ending, and knows
    }
  }

  std::unique_ptr<ProcessGroup> Split(int color, int key, std::string name) override {
    std::unique_ptr<ProcessGroup> part = state_->inner.Split(color, key, std::move(name));
    if (part == nullptr) return nullptr;
    ProcessGroup& inner = *part;
    return std::make_unique<BrokenGroup>(inner, std::move(part), device(), state_->fault);
  }

 private:
  Issued Issue(const Communication& c, CommunicationStats::Entry&) override {
    for (const auto& [out, data] : std::exchange(state_->late, {})) Write(device(), out, data);
    auto work = std::make_shared<BrokenWork>(state_, c);
    const bool hold_back = state_->fault == Fault::kSwappedOrder && c.is_collective() && state_->held_back == nullptr;
    if (hold_back) {
      state_->held_back = work;
    } else {
      work->Forward();
      if (const auto earlier = std::exchange(state_->held_back, nullptr)) {
        earlier->Forward();
        work->Overtakes(earlier);
      }
    }
    return {.state = work};
  }

  const std::unique_ptr<ProcessGroup> owned_;  // null: the world, which is the context's
  const std::shared_ptr<State> state_;
};

}  // namespace

std::string_view FaultName(Fault fault) {
  constexpr std::string_view kNames[] = {"none",         "swapped order", "swapped blocks",
                                         "dropped tail", "stale result",  "late completion",
                                         "missing rank", "wrong source",  "open barrier"};
  return kNames[static_cast<int>(fault)];
}

std::unique_ptr<ProcessGroup> BreakWorld(RankContext& context, Fault fault) {
  return std::make_unique<BrokenGroup>(context.world(), nullptr, context.device(), fault);
}

}  // namespace twofold::conformance
