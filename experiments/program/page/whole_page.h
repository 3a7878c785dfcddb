// What all pages have in common: the template, the style, D3 and the scripts.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace twofold::page {

// The text with each {{name}} replaced by its value. Values are not looked into. All names must have one.
std::string Filled(std::string_view text, const std::map<std::string_view, std::string_view>& values);

// A page. `title` is text, `body` is HTML, `data` is for the scripts (page_data.h).
std::string WholePage(std::string_view title, std::string_view body, std::string_view data);

}  // namespace twofold::page
