#include "sim/sharing/flow_classes.h"

#include <algorithm>

namespace twofold::sim {

bool FlowClasses::Refine(size_t set, const FlowClasses& other, size_t number) const {
  if (this == &other && set == number) return true;
  if (ClassesOf(set) < other.ClassesOf(number)) return false;
  std::vector<int> theirs(ClassesOf(set), -1);  // by class
  const size_t flows = std::max(numbers[set].of->size(), other.numbers[number].of->size());
  for (size_t f = 0; f < flows; ++f) {
    int& known = theirs[static_cast<size_t>(ClassOf(set, f)) - first_class[set]];
    const int own = other.ClassOf(number, f);
    if (known >= 0 && known != own) return false;
    known = own;
  }
  return true;
}

}  // namespace twofold::sim
