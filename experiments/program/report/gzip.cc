#include "experiments/program/report/gzip.h"

#include <zlib.h>

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "core/base/check.h"
#include "core/base/status.h"

namespace twofold {
namespace {

constexpr int kGzip = 16;  // added to the window's bits: a gzip header

Bytef* Input(std::string_view bytes) { return reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data())); }

}  // namespace

std::string Gzip(std::string_view bytes) {
  z_stream stream{};
  TWOFOLD_CHECK_EQ(deflateInit2(&stream, 6, Z_DEFLATED, MAX_WBITS + kGzip, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string zipped(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = Input(bytes);
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(zipped.data());
  stream.avail_out = static_cast<uInt>(zipped.size());
  TWOFOLD_CHECK_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  zipped.resize(stream.total_out);
  deflateEnd(&stream);
  return zipped;
}

bool IsGzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

absl::StatusOr<std::string> Gunzip(std::string_view bytes, int64_t most) {
  z_stream stream{};
  TWOFOLD_CHECK_EQ(inflateInit2(&stream, MAX_WBITS + kGzip), Z_OK);
  const absl::Cleanup end = [&stream] { inflateEnd(&stream); };
  std::string text, part(1 << 18, '\0');
  size_t given = 0;
  while (true) {
    if (stream.avail_in == 0) {
      const std::string_view next = bytes.substr(given, 1 << 26);
      given += next.size();
      stream.next_in = Input(next), stream.avail_in = static_cast<uInt>(next.size());
    }
    stream.next_out = reinterpret_cast<Bytef*>(part.data()), stream.avail_out = static_cast<uInt>(part.size());
    const int result = inflate(&stream, Z_NO_FLUSH);
    text.append(part, 0, part.size() - stream.avail_out);
    if (static_cast<int64_t>(text.size()) > most)
      return InvalidArgument("holds more than ", most, " bytes when it is unpacked");
    if (result == Z_STREAM_END) {
      if (stream.avail_in == 0 && given == bytes.size()) return text;
      if (inflateReset(&stream) != Z_OK) return InvalidArgument("is a damaged gzip file");
    } else if (result == Z_BUF_ERROR && stream.avail_in == 0 && given == bytes.size()) {
      return InvalidArgument("is a gzip file that is cut short");
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      return InvalidArgument("is a damaged gzip file",
                             stream.msg == nullptr ? std::string() : StrCat(" (", stream.msg, ")"));
    }
  }
}

}  // namespace twofold
