#include "tests/conformance/cases.h"

#include <iterator>
#include <utility>

namespace twofold::conformance {

std::vector<Case> AllCases() {
  std::vector<Case> all;
  for (std::vector<Case>& cases :
       std::vector{OperationCases(), OverlapCases(), MessageCases(), GroupCases(), TransferCases()}) {
    std::move(cases.begin(), cases.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace twofold::conformance
