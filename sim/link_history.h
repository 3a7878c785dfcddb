// What each link carries over time, from a moment on.
//
// Bytes are kept in bins of equal width. When time goes beyond the last one, each two become one, and the width
// doubles: memory is bounded, and a link's bins sum to the bytes that it carried. With the flow solver (flows.h), bytes
// are in the bins in which they crossed the link, and links that all flows load alike share their bins. With SimGrid's,
// the bytes of a flow are spread evenly from its begin to its end.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/zeros.h"
#include "core/run/link_loads.h"
#include "topologies/graph/topology.h"

namespace twofold::sim {

class TimeBins {
 public:
  static constexpr size_t kMost = 200;
  static constexpr double kLeastWidth = 0x1p-20;  // seconds

  void Add(double from, double to, double bytes);  // spread evenly; from >= 0
  void Add(const TimeBins& other);
  void Widen(double width);  // a power of 2 times the present width
  double width() const { return width_; }
  const std::vector<double>& bytes() const { return bytes_; }
  double Sum() const;

 private:
  double width_ = kLeastWidth;
  std::vector<double> bytes_;
};

// For one thread.
class LinkHistory {
 public:
  explicit LinkHistory(const Topology& topology) : topology_(topology), class_of_(topology.link_count()) {}

  // Recording begins at `time`, or earlier if it is called again with an earlier time, but not before `now`: a rank may
  // begin a step a little before the flows that are in flight were last brought up to date.
  void Begin(double time, double now);
  bool on() const { return origin_ >= 0; }
  bool RecordsAt(double time) const { return on() && time >= begin_; }

  // Bytes that cross a link at a constant rate; what is before the begin is left out.
  void Add(TimeBins& bins, double from, double to, double rate) const;
  // The bytes of one flow, on each of these links.
  void Carry(const std::vector<int>& links, double bytes, double from, double to, int use);

  // What flows belong to. Numbers are at least 1.
  int UseOf(std::string_view operation, const std::string& group);
  // Flows began: so many bytes on each of these sets of links.
  struct Share {
    const std::vector<int>* links;
    double bytes;
  };
  struct Shares {
    virtual ~Shares() = default;
    virtual std::vector<Share> Get() const = 0;
  };
  void Began(int use, std::shared_ptr<const Shares> flows);
  // The bytes of collectives that take a measured time are so many times larger than those that they send.
  void Stretched(double factor) { stretched_ = std::max(stretched_, factor); }
  void Unrecorded() { ++unrecorded_; }  // a communication whose flows are not known

  // Takes over the history of sets of links. `zone_of`: by link, one more than its place in `zones`, or 0.
  void Take(const Zeros<int>& zone_of, std::vector<TimeBins> zones);

  LinkLoads Loads() const;
  std::vector<std::string> NotesOn(const LinkLoads& loads) const;  // what a reader must know of them

 private:
  struct Candidate;
  std::vector<Candidate> Candidates() const;
  network::Pictures Pictures(int node, double begin, double width, size_t empty) const;
  void AddFlows(const std::vector<int>& links, std::vector<LinkLoads::Row>& rows) const;

  const Topology& topology_;
  double origin_ = -1, begin_ = std::numeric_limits<double>::infinity();  // of bins; of recording
  std::vector<int> class_of_;                                             // by link; 0: none
  std::vector<TimeBins> classes_ = {{}};
  absl::flat_hash_map<int, TimeBins> single_;  // of links
  std::vector<std::pair<std::string, std::string>> uses_;
  struct Begun {
    int use;
    std::shared_ptr<const Shares> flows;
    int64_t times;
  };
  std::vector<Begun> began_;
  absl::flat_hash_map<std::pair<int, const Shares*>, size_t> began_at_;           // places in began_
  absl::flat_hash_map<std::pair<int, int>, std::pair<int64_t, double>> carried_;  // by use and link: flows, bytes
  double stretched_ = 1;
  int64_t unrecorded_ = 0;
};

}  // namespace twofold::sim
