// The names that a misspelt one may mean.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace twofold {

// "; did you mean lr? (known: lr, eps)" with the names nearest to `name`, or "; known: lr, eps" when none is
// near. Near are those of few other letters, those that hold `name` and, where there are none of these, those that start
// almost as it does.
std::string Suggestion(std::string_view name, const std::vector<std::string>& known);

}  // namespace twofold
