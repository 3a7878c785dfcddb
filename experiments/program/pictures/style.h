// Colours and type of all pictures, for light and dark screens.
#pragma once

#include <string>
#include <string_view>

namespace twofold::pictures {

// CSS for pages and for stand-alone pictures.
std::string Style();
// CSS, to stand after it: colours of a page whose reader has chosen light or dark, as its root's data-theme.
std::string ChosenThemes();

// A picture as a file of its own: `svg` with the style sheet inside.
std::string StandAlone(const std::string& svg);

// How a span is drawn: a CSS class, and its name in the legend.
enum class SpanClass { kProduct, kAttention, kNorm, kElement, kLoss, kOptimizer, kCommunication, kTransfer, kOther };
inline constexpr int kSpanClasses = 9;
SpanClass ClassOf(std::string_view stream, std::string_view name);
std::string CssClass(SpanClass c);
std::string LegendName(SpanClass c);
std::string_view ShortName(SpanClass c);  // "product", "communication"

// The CSS class of a memory category; unknown ones are drawn as "other".
std::string MemoryCss(std::string_view category);

}  // namespace twofold::pictures
