#include "experiments/program/page/whole_page.h"

#include "experiments/program/page/web_texts.h"
#include "experiments/program/pictures/format.h"
#include "experiments/program/pictures/style.h"

namespace twofold::page {

std::string Filled(std::string_view text, const std::map<std::string_view, std::string_view>& values) {
  std::string filled;
  for (size_t at = 0; at < text.size();) {
    const size_t open = text.find("{{", at), close = text.find("}}", open);
    if (open == text.npos) return filled.append(text.substr(at));
    const std::string_view name = text.substr(open + 2, close - open - 2);
    filled.append(text.substr(at, open - at)).append(values.at(name));
    at = close + 2;
  }
  return filled;
}

std::string WholePage(std::string_view title, std::string_view body, std::string_view data) {
  std::string scripts;
  for (const std::string_view script : kScripts) scripts.append(script);
  const std::string style = pictures::Style() + pictures::ChosenThemes() + std::string(kPageStyle),
                    escaped = pictures::Escape(std::string(title));
  return Filled(
      kTemplate,
      {{"title", escaped}, {"style", style}, {"body", body}, {"data", data}, {"d3", kD3}, {"scripts", scripts}});
}

}  // namespace twofold::page
