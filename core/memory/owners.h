// Who asks an allocator for memory: in which pass of training, for which module, and what tensor it is.
//
// The code that allocates says so with scopes, on the rank's own thread. What a block gets never depends on it.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "core/memory/ledger.h"

namespace twofold {

// What is asked for.
struct TensorKind {
  std::string_view type = {};             // "f32": a literal
  std::span<const int64_t> extents = {};  // of its axes
  std::string_view name = {};             // "weight", which is copied; "": what the scope says
};

class Owners {
 public:
  // Who asked, in little room.
  struct Id {
    int pass = 0, module = 0, tensor = 0;  // places in names_
    Category category = Category::kOther;
    std::string_view type = {};
    absl::InlinedVector<int64_t, 4> extents = {};
    friend bool operator==(const Id&, const Id&) = default;
    template <class H>
    friend H AbslHashValue(H h, const Id& id) {
      return H::combine(std::move(h), id.pass, id.module, id.tensor, id.category, id.type, id.extents);
    }
  };
  struct Owner {
    std::string pass;    // "forward", "backward", "optimizer", ...; "": none said so
    std::string module;  // its path: "blocks.0.attention"; "": the whole model, or none
    std::string tensor;  // "weight f32[64, 64]"
    Category category;
  };

  Id Now(Category category, const TensorKind& kind);  // who asks now
  Owner owner(const Id& id) const;

 private:
  friend class OwnerScope;
  struct Names {
    int pass = 0, module = 0, tensor = 0;
  };
  int Number(std::string_view name);

  Names now_;
  std::deque<std::string> names_ = {""};
  absl::flat_hash_map<std::string_view, int> numbers_;  // views of names_
};

// While it exists, its names are those of who asks. Scopes nest.
class OwnerScope {
 public:
  struct Names {
    // A view without data leaves the name as it is. The tensor's name is "" unless it is given.
    std::string_view pass = {}, module = {}, tensor = {};
  };
  OwnerScope(Owners& owners, const Names& names);
  ~OwnerScope() { owners_.now_ = before_; }
  OwnerScope(const OwnerScope&) = delete;
  OwnerScope& operator=(const OwnerScope&) = delete;

 private:
  Owners& owners_;
  const Owners::Names before_;
};

}  // namespace twofold
