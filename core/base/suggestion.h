// Suggestions for misspelt names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace twofold {

// "; did you mean lr? (known: lr, eps)" with the names nearest to `name`, or "; known: lr, eps" if none is near. A name
// is near if its edit distance is small or if it contains `name`. If there is no such name, names with a similar
// beginning are suggested.
std::string Suggestion(std::string_view name, const std::vector<std::string>& known);

}  // namespace twofold
