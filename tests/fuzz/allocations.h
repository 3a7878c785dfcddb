// What a test program takes from the heap through operator new, watched. Link allocations.cc, which replaces it.
#pragma once

#include <cstdint>

namespace twofold::test {

// From its making on; one at a time, on one thread.
class Allocations {
 public:
  Allocations();
  int64_t peak() const;     // most bytes held at once, beyond what was held at the start
  int64_t largest() const;  // the largest single request
};

}  // namespace twofold::test
