// Flows that begin together and have the links to themselves, as in fluid.h, for many thousands that differ but end in
// few lots.
//
// Flows with as many bytes and the same limit begin as one block (flow_blocks.h), whatever they cross. Progressive
// filling fixes the rates of a block's flows on the links of one kind at a time; if others of its flows cross no such
// link, these are split off and go on. So a block is only split when its flows' rates differ, which makes shares exact
// and blocks few: of 108,801 classes of flows that met on 12,800 nodes, there were 17.
//
// As flows end, only shares that change are computed anew. Max-min rates are given by levels of links: a full link's
// level is the highest rate on it, a flow's rate is the least level of its links, and a link's level L is where the sum
// of min(L, what their other links allow) of its flows fills it (Bertsekas and Gallager 1992, Data Networks, section
// 6.5.2). So a link depends only on links of lower levels, and what an end changes spreads upwards alone (Ros-Giralt et
// al. 2019, "On the Bottleneck Structure of Congestion-Controlled Networks", Proc. ACM Meas. Anal. Comput. Syst. 3(3),
// section 2). A sweep goes through the kinds of links that an end touches by ascending level:
// * links that are no longer full release the flows that have their level: these may become faster;
// * when released flows fill links, they and all faster flows there get the links' new level. What the latter give up
//   may release flows of other links, whose levels are higher.
// Kinds that no such flow crosses are never looked at.
//
// Cost: for flows that cross E links in total, O(E) to begin with, and what splits cost (flow_blocks.h). For each end,
// a few looks at all blocks on each kind that a block crosses whose rate changes, and what is told of it.
//
// Assumes and ignores the same as fluid.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <span>
#include <utility>
#include <vector>

#include "sim/sharing/flow_blocks.h"

namespace twofold::sim {

class BlockShares {
 public:
  explicit BlockShares(std::vector<double> bandwidths);  // of the links, bytes per second
  // Flows that are known. `bytes`: of each of them; one of 0 takes no part.
  BlockShares(std::shared_ptr<const FlowBlocks::Network> network, std::vector<double> bytes);
  // Before the first Next. Adds a flow over `links`, each once, with more than 0 bytes. It crosses a link or has a
  // limit, `rate`. `weights`: it stands for equal flows, of which so many are on each of `links`.
  void Add(std::span<const int> links, double bytes, double rate, std::span<const int> weights);

  struct Step {
    double time;                                // since the beginning
    std::vector<std::pair<int, double>> rates;  // flow, by order of Add; its rate from now on; 0: it has ended
    std::vector<std::pair<int, double>> loads;  // link, change of its load
  };
  // The next moment at which rates change, the first one at 0. Ends within 1e-12 of one another are treated as one.
  // Nullopt: all flows have ended.
  std::optional<Step> Next();
  size_t blocks() const { return blocks_.size(); }  // until now

 private:
  enum class State : uint8_t { kKept, kReleased, kSettled, kEnded };  // all but kEnded: in this sweep
  struct Block {
    double left, limit;           // bytes at `since`, of each of its flows; bytes a second
    double rate = 0, before = 0;  // now; before this sweep
    double since = 0, end = 0;    // seconds; end: at its present rate
    State state = State::kKept;
  };
  struct Kind {
    int sweep = 0;        // the last that touched it; what follows is of that sweep
    bool marked = false;  // its next event may be another one
    bool told = true;     // no link of it has another load than was told
    double fixed = 0;     // bytes per second of flows that are not released
    double released = 0;  // weight of the others
    double fastest = 0;   // no flow on it that is kept has a higher rate
    double level = 0;     // infinite: it is not full
    double least = 0;     // the released flows fill it at no lower level
    double queued = 0;    // the least level for which it is in the queue
  };
  struct Event {
    double level;  // infinite: none
    bool releases;
  };

  void Start();
  std::optional<double> EndNext(double until);
  void Sweep();
  void Keep(double time);
  Kind& Touch(int kind);
  void Mark(int kind);
  void Queue(int kind, double level);
  void QueueMarked();
  double FullAt(int kind);
  Event NextOf(int kind, bool exactly);
  void Release(int kind);
  void ReleaseBlock(int block);
  void Settle(int kind, double level);
  void SettleBlock(int block, double level);
  int Crossing(int block, int kind);
  void Tell(Step& step);
  template <class Visit>
  void ForKindsOf(int block, Visit&& visit);
  Block& BlockAt(int number) { return blocks_[static_cast<size_t>(number)]; }
  Kind& KindAt(int number) { return kinds_[static_cast<size_t>(number)]; }

  FlowBlocks::Flows flows_;  // until they are given to `network_`
  std::shared_ptr<const FlowBlocks::Network> network_;
  std::vector<double> bytes_;
  std::optional<FlowBlocks> parts_;
  std::vector<Block> blocks_;
  std::vector<Kind> kinds_;
  std::vector<double> rates_, loads_;  // by flow, by link: as they were told last
  int sweep_ = 0;
  double level_ = 0;                      // all below is done
  using Queued = std::pair<double, int>;  // level, kind or ~block
  std::priority_queue<Queued, std::vector<Queued>, std::greater<Queued>> queue_;
  std::priority_queue<Queued, std::vector<Queued>, std::greater<Queued>> ends_;  // time, block
  std::vector<int> changed_;                  // blocks that were released or slowed down in this sweep
  std::vector<int> marked_, untold_, fresh_;  // kinds; kinds; blocks that were split off
  std::vector<int> moved_;                    // blocks whose rates changed since they were told
  FlowBlocks::Made made_;                     // scratch
};

}  // namespace twofold::sim
