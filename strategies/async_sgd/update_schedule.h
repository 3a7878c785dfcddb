// Which gradient goes into which update: the rule by which parameter servers bound staleness. No communication, no
// clock.
//
// Workers compute gradients on the parameters that they were given, while others' gradients change them. An update
// takes as many gradients as there are workers, from whoever has one: a fast worker may give several, a slow one none.
//   Zhang, Gupta, Lian, Liu 2016, "Staleness-aware Async-SGD for Distributed Deep Learning", IJCAI: section 2, the
//   1-softsync protocol. A gradient's staleness is the number of updates between the parameters that it was computed on
//   and the update that takes it.
//   Ho et al. 2013, "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server", NIPS: section 3,
//   staleness never exceeds a bound; 0 is synchronous training.
//
// A gradient that is computed on the parameters after r updates is due in update r + bound at the latest (updates count
// from 0), and in the last update in any case. So places are kept free for what is due: a worker starts, or a gradient
// is taken, only if all gradients that are being computed still find a place in time. Whoever is refused waits for the
// slow ones. So every gradient that was begun is taken, exactly once, and all updates take equally many.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace twofold {

// Used by one thread.
class UpdateSchedule {
 public:
  struct Options {
    int workers = 1;
    int64_t updates = 1;               // of the whole training
    std::optional<int64_t> staleness;  // the bound; nullopt: none
  };
  explicit UpdateSchedule(const Options& options);

  int64_t done() const { return done_; }  // updates so far
  bool computes(int worker) const { return began_[static_cast<size_t>(worker)].has_value(); }
  // The updates before the gradient that `worker` computes.
  int64_t began(int worker) const { return *began_[static_cast<size_t>(worker)]; }

  // Whether a worker that does not compute may be given the parameters as they are now.
  bool MayStart() const;
  void Start(int worker);
  // Whether the next update may take the gradient that `worker` computes.
  bool MayTake(int worker) const;
  int64_t Take(int worker);                                     // returns its staleness
  bool complete() const { return taken_ == options_.workers; }  // the next update has all its gradients
  void Update();                                                // they were used
  // Replays leave out updates that are like the one before: everything happens as many updates later.
  void Skip(int64_t updates);

 private:
  bool Fits(std::vector<int64_t> began, int64_t taken) const;
  std::vector<int64_t> Computing(int but = -1) const;

  const Options options_;
  std::vector<std::optional<int64_t>> began_;  // by worker; nullopt: it does not compute
  int64_t done_ = 0;
  int64_t taken_ = 0;  // gradients of the next update
};

}  // namespace twofold
