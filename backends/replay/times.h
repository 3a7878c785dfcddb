// The time that one rank's own work takes in a replay: how long its streams are busy if nobody makes it wait.
//
// The compute stream, streams of transfers and the stream of each group advance as those of a simulated rank do: work
// begins when its stream is free and what it waits for is done. Whoever else takes part in a communication is there
// already. So no moment is later than in a run of all ranks whose operations and communications take at least as long:
// all moments are maxima and sums of earlier ones. The host takes no time, but work that it launches after a wait does
// not begin before what it waited for.
//
// Cut() forgets what is still in flight: from there on, the streams of groups are free, and waiting for earlier work
// takes no time. Streams of transfers have been free for ever: a host that is ahead of its device starts them early.
// The time from one cut to the next is then the least that this part of the program takes after anything.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/comm/communication.h"
#include "core/device/ops.h"

namespace twofold {

class ReplayTimes {
 public:
  virtual ~ReplayTimes() = default;
  // Each is called before the work begins. Seconds.
  virtual double Operation(const ops::Op& op, bool on_compute_stream) = 0;
  virtual double Transfer(const Tensor& from, const Tensor& to) = 0;
  // By rank `rank` of a group of `ranks`, world ranks.
  virtual double Communicate(const std::vector<int>& ranks, int rank, const Communication& c) = 0;
  // By how many seconds others come to that communication after this rank.
  virtual double Late() const { return 0; }
  // The number of the communication that Communicate was last called for; 0: none is wanted.
  virtual uint64_t Number() const { return 0; }
  // Host or compute stream begin to wait for the communication of that number.
  virtual void Waits(uint64_t /*number*/) {}
  // Host or compute stream begin to wait for any other stream.
  virtual void ComputeWaits() {}

  struct Moment {
    double time = 0;
    uint64_t since = 0;  // number of cuts before it
  };
  Moment compute;  // until when the compute stream is busy

  double TimeOf(const Moment& m) const { return m.since == cuts_ ? m.time : cut_; }
  double TimeOfTransfers(const Moment& m) const {
    return m.since == cuts_ ? m.time : -std::numeric_limits<double>::infinity();
  }
  Moment Mark(double time) const { return {time, cuts_}; }
  void Pass(Moment& line, double seconds) { line = Mark(std::max(TimeOf(line), host_) + seconds); }
  void Wait(Moment& line, const Moment& until) {
    if (&line == &compute) ComputeWaits();
    if (until.since == cuts_) line = Mark(std::max(TimeOf(line), until.time));
  }
  void TransferWaits(Moment& line, const Moment& until) {
    if (until.since == cuts_) line = Mark(std::max(TimeOfTransfers(line), until.time));
  }
  void HostWaits(const Moment& until) {
    ComputeWaits();
    if (until.since == cuts_) host_ = std::max(host_, until.time);
  }
  void PassTransfer(Moment& line, double seconds) { line = Mark(TimeOfTransfers(line) + seconds); }
  // A communication on a group's stream, `Late` after all that compute has been given. Returns its end.
  Moment Send(Moment& line, double seconds) {
    line = Mark(std::max(TimeOf(line), std::max(TimeOf(compute), host_) + Late()) + seconds);
    return line;
  }
  void Cut() {
    const double now = TimeOf(compute);
    ++cuts_, cut_ = host_ = now, compute = Mark(now);
  }

 private:
  uint64_t cuts_ = 0;
  double cut_ = 0, host_ = 0;
};

}  // namespace twofold
