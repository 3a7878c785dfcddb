#include "experiments/program/report/network_file.h"

#include <cmath>
#include <filesystem>

#include "core/base/status.h"
#include "experiments/program/report/files.h"
#include "experiments/program/report/gzip.h"
#include "experiments/program/report/json.h"

namespace twofold {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMostNetworkBytes = int64_t{1} << 30;
constexpr int kMostNetworkBins = 1 << 16;

absl::Status CheckSeries(const network::Series& series, int number) {
  if (series.load_size() > kMostNetworkBins || series.highest_size() > kMostNetworkBins)
    return InvalidArgument("series[", number, "]: has more than ", kMostNetworkBins, " bins");
  for (const auto* values : {&series.load(), &series.highest()}) {
    for (const int64_t value : *values)
      if (value < 0) return InvalidArgument("series[", number, "]: ", value, " is below 0");
  }
  return absl::OkStatus();
}

absl::Status CheckPicture(const network::Picture& picture, int series) {
  for (int e = 0; e < picture.edges_size(); ++e) {
    const network::Edge& edge = picture.edges(e);
    const auto wrong = [&](const char* field, const auto& value, const auto&... expected) {
      return InvalidArgument("edges[", e, "].", field, " = ", value, ": expected ", expected...);
    };
    if (edge.from() < 0 || edge.from() >= picture.cells_size())
      return wrong("from", edge.from(), "one of ", picture.cells_size(), " cells");
    if (edge.to() < 0 || edge.to() >= picture.cells_size())
      return wrong("to", edge.to(), "one of ", picture.cells_size(), " cells");
    if (edge.series() < -1 || edge.series() >= series)
      return wrong("series", edge.series(), "-1 or one of ", series, " series");
    if (!(edge.bandwidth() > 0) || !std::isfinite(edge.bandwidth()))
      return wrong("bandwidth", edge.bandwidth(), "more than 0");
    if (!(edge.bytes() >= 0) || !std::isfinite(edge.bytes())) return wrong("bytes", edge.bytes(), "0 or more");
    if (edge.links() < 1) return wrong("links", edge.links(), "1 or more");
  }
  return absl::OkStatus();
}

absl::Status CheckPictures(const network::Pictures& pictures) {
  if (!std::isfinite(pictures.begin()) || !(pictures.width() > 0) || !std::isfinite(pictures.width()))
    return InvalidArgument("begin = ", pictures.begin(), ", width = ", pictures.width(),
                           ": expected seconds, and a width of more than 0");
  for (int s = 0; s < pictures.series_size(); ++s)
    if (absl::Status wrong = CheckSeries(pictures.series(s), s); !wrong.ok()) return wrong;
  for (int p = 0; p < pictures.pictures_size(); ++p) {
    if (absl::Status wrong = CheckPicture(pictures.pictures(p), pictures.series_size()); !wrong.ok())
      return InvalidArgument("pictures[", p, "].", wrong.message());
  }
  return absl::OkStatus();
}

absl::StatusOr<network::Pictures> ParsePictures(const std::string& zipped) {
  const absl::StatusOr<std::string> text = Gunzip(zipped, kMostNetworkBytes);
  if (!text.ok()) return text.status();
  const Json json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return InvalidArgument("is not JSON");
  network::Pictures pictures;
  if (absl::Status s = FromJson(json, &pictures); !s.ok()) return s;
  if (absl::Status s = CheckPictures(pictures); !s.ok()) return s;
  return pictures;
}

}  // namespace

std::string NetworkFileBytes(network::Pictures pictures, double origin) {
  pictures.set_begin(pictures.begin() - origin);
  return Gzip(ToJson(pictures).dump(-1, ' ', false, Json::error_handler_t::replace));
}

absl::StatusOr<network::Pictures> ReadNetworkFile(const std::string& path) {
  std::error_code none;
  if (!std::filesystem::exists(path, none)) return network::Pictures();
  const absl::StatusOr<std::string> bytes = ReadFile(path);
  if (!bytes.ok()) return bytes.status();
  absl::StatusOr<network::Pictures> pictures = ParsePictures(*bytes);
  if (!pictures.ok()) return InvalidArgument(path, ": ", pictures.status().message());
  return pictures;
}

}  // namespace twofold
