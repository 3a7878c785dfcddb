#include "core/io/checkpoint_manifest.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/io/safetensors.h"
#include "nlohmann/json.hpp"

namespace twofold::checkpoint {
namespace {

using nlohmann::json;

// The first is the one written; the last, if the elements have no values
constexpr std::string_view kWithoutValues = "twofold checkpoint without values 1";
constexpr std::string_view kFormats[] = {"twofold checkpoint 2", "twofold checkpoint 1", kWithoutValues};
constexpr std::string_view kPartFormats[] = {"twofold checkpoint part 2"};
constexpr int64_t kMost = int64_t{1} << 62;
constexpr int64_t kLongest = int64_t{1} << 30;  // maximum manifest size in bytes

// An error in a file that was read. Thrown only within this source file, while JSON is parsed.
struct Wrong {
  std::string text;
};

std::string Shown(std::string_view text) {
  constexpr size_t kLong = 100;
  const std::string shown = absl::CEscape(absl::string_view(text.data(), std::min(text.size(), kLong)));
  return StrCat("\"", shown, text.size() > kLong ? "..." : "", "\"");
}

// ---- Writing ----
json Number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

json ToJson(const Contents& contents) {
  json files = json::array(), tensors = json::array();
  for (const FileSum& f : contents.files) {
    std::string sums;
    for (const uint64_t block : f.blocks) absl::StrAppendFormat(&sums, "%016x", block);
    files.push_back({{"name", f.name}, {"bytes", f.bytes}, {"checksums", std::move(sums)}});
  }
  for (const Entry& e : contents.tensors) {
    json pieces = json::array();
    for (const Piece& p : e.pieces) {
      pieces.push_back(json::array({p.file, p.tensor, p.where.first, p.where.count}));
      if (!p.where.contiguous()) pieces.back().insert(pieces.back().end(), {p.where.column, p.where.width});
    }
    tensors.push_back({{"name", e.name},
                       {"dtype", SafetensorsType(e.dtype)},
                       {"shape", std::vector<int64_t>(e.shape.begin(), e.shape.end())},
                       {"pieces", std::move(pieces)}});
    if (e.row() != e.shape.numel()) tensors.back()["row"] = e.row();
    for (const Held& held : e.holds) {
      const Region& r = held.where;
      tensors.back()["holds"].push_back(
          json::array({held.parameter, held.at, r.row, r.column, r.width, r.first, r.count, held.weight}));
    }
  }
  return {{"files", std::move(files)}, {"tensors", std::move(tensors)}};
}

std::string Digits(uint64_t checksum) { return absl::StrFormat("%016x", checksum); }
uint64_t ChecksumOf(const json& content) {
  const std::string text = content.dump();
  return Checksum(std::as_bytes(std::span(text)));
}

std::string Sealed(std::string_view format, json content) {
  std::string checksum = Digits(ChecksumOf(content));
  return json{{"format", format}, {"checksum", std::move(checksum)}, {"content", std::move(content)}}.dump(1) + "\n";
}

// ---- Reading ----
const json& Field(const json& object, const char* name, const std::string& of) {
  if (!object.is_object()) throw Wrong{StrCat(of, ": must be an object")};
  const auto found = object.find(name);
  if (found == object.end()) throw Wrong{StrCat(of, ": has no ", name)};
  return *found;
}
int64_t Whole(const json& value, const std::string& what, int64_t most = kMost) {
  if (!value.is_number_integer() ||
      (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(most)) || value.get<int64_t>() < 0 ||
      value.get<int64_t>() > most) {
    throw Wrong{StrCat(what, ": must be a whole number from 0 to ", most)};
  }
  return value.get<int64_t>();
}
const std::string& Text(const json& value, const std::string& what) {
  if (!value.is_string()) throw Wrong{StrCat(what, ": must be a string")};
  return value.get_ref<const std::string&>();
}
const json& List(const json& value, const std::string& what) {
  if (!value.is_array()) throw Wrong{StrCat(what, ": must be a list")};
  return value;
}

uint64_t FromDigits(std::string_view digits, const std::string& what) {
  uint64_t value = 0;
  const char* end = digits.data() + digits.size();
  if (digits.size() != 16 || std::from_chars(digits.data(), end, value, 16).ptr != end) {
    throw Wrong{StrCat(what, ": must be a checksum of 16 hexadecimal digits (got ", Shown(digits), ")")};
  }
  return value;
}

FileSum FileFrom(const json& value, size_t index) {
  const std::string of = StrCat("files[", index, "]");
  FileSum file{Text(Field(value, "name", of), of + ".name"), Whole(Field(value, "bytes", of), of + ".bytes"), {}};
  const bool plain = !file.name.empty() && file.name.size() < 256 && file.name[0] != '.' &&
                     file.name.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
  if (!plain) throw Wrong{StrCat(of, ".name: ", Shown(file.name), " is not a valid file name")};
  const std::string& sums = Text(Field(value, "checksums", of), of + ".checksums");
  const int64_t blocks = file.bytes / kChecksumBlock + (file.bytes % kChecksumBlock != 0 ? 1 : 0);
  if (static_cast<int64_t>(sums.size() / 16) != blocks || sums.size() % 16 != 0) {
    throw Wrong{StrCat(of, ": ", file.bytes, " bytes need ", blocks, " checksums of 16 digits each, but the field has ",
                       sums.size(), " digits")};
  }
  for (size_t at = 0; at < sums.size(); at += 16)
    file.blocks.push_back(FromDigits(std::string_view(sums).substr(at, 16), of));
  return file;
}

Piece PieceFrom(const json& value, const std::string& of, size_t files, int64_t row) {
  const size_t size = List(value, of).size();
  if (size != 4 && size != 6)
    throw Wrong{
        StrCat(of, ": a piece must be [file, tensor, first, count] or [file, tensor, first, count, column, width]")};
  Piece piece{Whole(value[0], of), Text(value[1], of), {row, 0, row, Whole(value[2], of), Whole(value[3], of)}};
  if (size == 6) {
    piece.where.column = Whole(value[4], of), piece.where.width = Whole(value[5], of);
    if (piece.where.width == 0) throw Wrong{StrCat(of, ": the width of a band must be at least 1")};
  }
  if (piece.file >= static_cast<int64_t>(files))
    throw Wrong{StrCat(of, ": a piece is in file ", piece.file, ", but there are only ", files, " files")};
  return piece;
}

// `numel`: elements of the flat tensor.
Held HeldFrom(const json& value, const std::string& of, int64_t numel) {
  if (List(value, of).size() != 8) {
    throw Wrong{
        StrCat(of, ": what it holds must be [parameter, first element, row, column, width, first, count, weight]")};
  }
  const auto whole = [&](size_t i) { return Whole(value[i], of); };
  const Held held{.parameter = Text(value[0], of),
                  .at = whole(1),
                  .where = {whole(2), whole(3), whole(4), whole(5), whole(6)},
                  .weight = value[7].is_number() ? value[7].get<double>() : 0};
  const auto& [row, column, width, first, count] = held.where;
  if (width == 0 || column > row || width > row - column || first > kMost / 8 || count > kMost / 8 ||
      (first + count) / width >= kMost / 8 / row) {
    throw Wrong{StrCat(of, ": holds ", count, " elements from ", first, " on of columns ", column, " to ",
                       column + width, " of rows of ", row, ", which is no part of a parameter")};
  }
  if (count == 0 || held.at > numel || count > numel - held.at)
    throw Wrong{StrCat(of, ": ", count, " elements from ", held.at, " on do not fit within ", numel)};
  if (!(held.weight > 0 && std::isfinite(held.weight)))
    throw Wrong{StrCat(of, ": the weight of what it holds must be a number greater than 0")};
  return held;
}

Entry EntryFrom(const json& value, size_t index, size_t files) {
  std::string of = StrCat("tensors[", index, "]");
  Entry entry;
  entry.name = Text(Field(value, "name", of), of + ".name");
  of = StrCat("tensor ", Shown(entry.name));
  const std::string& type = Text(Field(value, "dtype", of), of + ".dtype");
  const std::optional<DType> dtype = FromSafetensorsType(type);
  if (!dtype) throw Wrong{StrCat(of, ": dtype ", Shown(type), " is not one of F64, F32, BF16, F16, I32, U8")};
  entry.dtype = *dtype;
  std::vector<int64_t> shape;
  int64_t numel = 1;
  for (const json& dim : List(Field(value, "shape", of), of + ".shape")) {
    shape.push_back(Whole(dim, of + ".shape"));
    if (shape.size() > 32 || shape.back() == 0 || __builtin_mul_overflow(numel, shape.back(), &numel) ||
        numel > kMost / 8) {
      throw Wrong{StrCat(of, ": a shape must have at most 32 dimensions, none of them 0, and less than 2^59 elements")};
    }
  }
  entry.shape = Shape(std::span<const int64_t>(shape));
  const int64_t row = value.contains("row") ? Whole(value["row"], of + ".row") : numel;
  if (row == 0 || numel % row != 0)
    throw Wrong{StrCat(of, ": ", numel, " elements cannot be divided into rows of ", row)};
  for (const json& piece : List(Field(value, "pieces", of), of + ".pieces")) {
    entry.pieces.push_back(PieceFrom(piece, of, files, row));
    const Region& p = entry.pieces.back().where;
    if (p.column > row || p.width > row - p.column) {
      throw Wrong{
          StrCat(of, ": a band of ", p.width, " columns from ", p.column, " on does not fit within rows of ", row)};
    }
    const int64_t most = p.Band(numel).count;
    if (p.count == 0 || p.first > most || p.count > most - p.first) {
      throw Wrong{StrCat(of, ": a piece of ", p.count, " elements from ", p.first, " on does not fit within ", most,
                         " elements")};
    }
  }
  if (!value.contains("holds")) return entry;
  for (const json& held : List(value["holds"], of + ".holds")) entry.holds.push_back(HeldFrom(held, of, numel));
  return entry;
}

Contents ContentsFrom(const json& value) {
  Contents contents;
  std::set<std::string> files, names;
  for (const json& file : List(Field(value, "files", "content"), "files")) {
    contents.files.push_back(FileFrom(file, contents.files.size()));
    if (!files.insert(contents.files.back().name).second)
      throw Wrong{StrCat("file ", Shown(contents.files.back().name), " is listed twice")};
  }
  for (const json& entry : List(Field(value, "tensors", "content"), "tensors")) {
    contents.tensors.push_back(EntryFrom(entry, contents.tensors.size(), contents.files.size()));
    if (!names.insert(contents.tensors.back().name).second)
      throw Wrong{StrCat("tensor ", Shown(contents.tensors.back().name), " is listed twice")};
  }
  return contents;
}

// The pieces of one band, ordered by `first`, must cover each of its elements exactly once.
void CheckBand(const Entry& entry, std::span<const Piece> pieces) {
  const Region band = pieces[0].where.Band(entry.shape.numel());
  const std::string of = StrCat("tensor ", Shown(entry.name), ": elements ");
  const std::string where =
      band.contiguous() ? "" : StrCat(" of columns ", band.column, " to ", band.column + band.width);
  int64_t at = 0;
  for (const auto& [file, tensor, p] : pieces) {
    if (p.width != band.width)
      throw Wrong{StrCat("tensor ", Shown(entry.name), ": bands of different widths begin at column ", band.column)};
    if (p.first != at)
      throw Wrong{StrCat(of, std::min(at, p.first), " to ", std::max(at, p.first), where,
                         p.first > at ? " are missing" : " are stored twice")};
    at += p.count;
  }
  if (at != band.count) throw Wrong{StrCat(of, at, " to ", band.count, where, " are missing")};
}

// Sorts the pieces and checks that they cover every element exactly once: bands are adjacent, and each is complete.
void CheckWhole(Entry& entry) {
  std::sort(entry.pieces.begin(), entry.pieces.end(), [](const Piece& a, const Piece& b) {
    return std::pair(a.where.column, a.where.first) < std::pair(b.where.column, b.where.first);
  });
  const auto refuse = [&](int64_t from, int64_t to, std::string_view what) {
    throw Wrong{StrCat("tensor ", Shown(entry.name), ": ", entry.row() < entry.shape.numel() ? "columns " : "elements ",
                       from, " to ", to, what)};
  };
  int64_t column = 0;
  const std::span<const Piece> pieces = entry.pieces;
  for (size_t begin = 0, end; begin < pieces.size(); begin = end) {
    const Region& band = pieces[begin].where;
    for (end = begin + 1; end < pieces.size() && pieces[end].where.column == band.column;) ++end;
    if (band.column > column) refuse(column, band.column, " are missing");
    if (band.column < column) refuse(band.column, column, " are stored twice");
    CheckBand(entry, pieces.subspan(begin, end - begin));
    column += band.width;
  }
  if (column < entry.row()) refuse(column, entry.row(), " are missing");
}

double DoubleFrom(const json& value, const std::string& what) {
  if (value.is_number()) return value.get<double>();
  const std::string& text = Text(value, what);
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf" || text == "-inf") return (text[0] == '-' ? -1 : 1) * std::numeric_limits<double>::infinity();
  throw Wrong{StrCat(what, ": must be a number (got ", Shown(text), ")")};
}

Metadata MetadataFrom(const json& value) {
  const auto whole = [&](const char* name) { return Whole(Field(value, name, "content"), name); };
  const auto text = [&](const char* name) { return Text(Field(value, name, "content"), name); };
  Metadata metadata{.sequence = whole("sequence"),
                    .step = whole("step"),
                    .updates = whole("updates"),
                    .seed = 0,
                    .world_size = whole("world_size"),
                    .global_batch = whole("global_batch"),
                    .layout = text("layout"),
                    .mesh = value.contains("mesh") ? text("mesh") : "",
                    .kind = text("kind"),
                    .optimizer = text("optimizer"),
                    .model = text("model"),
                    .scalars = {}};
  const json& seed = Field(value, "seed", "content");
  if (!seed.is_number_unsigned()) throw Wrong{"seed: must be a whole number of at least 0"};
  metadata.seed = seed.get<uint64_t>();
  const json& scalars = Field(value, "scalars", "content");
  if (!scalars.is_object()) throw Wrong{"scalars: must be an object"};
  for (const auto& [name, number] : scalars.items())
    metadata.scalars[name] = DoubleFrom(number, StrCat("scalars.", Shown(name)));
  return metadata;
}

struct UnsealedText {
  json content;
  std::string_view format;  // one of `formats`
};

// The content of a sealed text, after its format and checksum have been checked.
UnsealedText Unsealed(std::span<const std::string_view> formats, const std::string& text) {
  const auto shallow = [](int depth, json::parse_event_t, json&) {
    if (depth > 8) throw Wrong{"is nested deeper than any manifest"};
    return true;
  };
  json sealed = json::parse(text, shallow);
  const std::string& is = Text(Field(sealed, "format", "the file"), "format");
  const auto format = std::find(formats.begin(), formats.end(), is);
  if (format == formats.end()) {
    throw Wrong{
        StrCat("format: ", Shown(is), " is not a format that this program reads; it reads ", Shown(formats[0]))};
  }
  const uint64_t was = FromDigits(Text(Field(sealed, "checksum", "the file"), "checksum"), "checksum");
  Field(sealed, "content", "the file");
  json content = std::move(sealed["content"]);
  if (const uint64_t now = ChecksumOf(content); now != was) {
    throw Wrong{
        StrCat("content: has changed since it was saved: its checksum is ", Digits(now), ", but was ", Digits(was))};
  }
  return {std::move(content), *format};
}

template <class Read>
auto Guarded(const std::string& path, Read read) -> absl::StatusOr<decltype(read())> {
  try {
    return read();
  } catch (const Wrong& wrong) {
    return InvalidArgument(path, ": ", wrong.text);
  } catch (const json::parse_error& error) {
    return InvalidArgument(path, ": is not valid JSON at byte ", error.byte);
  } catch (const json::exception&) {
    return InvalidArgument(path, ": contains a number or text that no manifest contains");
  }
}

}  // namespace

std::string ManifestText(const Manifest& manifest) {
  json content = ToJson(manifest.contents);
  const Metadata& f = manifest.metadata;
  json scalars = json::object();
  for (const auto& [name, value] : f.scalars) scalars[name] = Number(value);
  content.update({{"sequence", f.sequence},
                  {"step", f.step},
                  {"updates", f.updates},
                  {"seed", f.seed},
                  {"world_size", f.world_size},
                  {"global_batch", f.global_batch},
                  {"layout", f.layout},
                  {"mesh", f.mesh},
                  {"kind", f.kind},
                  {"optimizer", f.optimizer},
                  {"model", f.model},
                  {"scalars", std::move(scalars)}});
  return Sealed(f.has_values ? kFormats[0] : kWithoutValues, std::move(content));
}

absl::StatusOr<Manifest> ParseManifest(const std::string& path, const std::string& text) {
  return Guarded(path, [&] {
    const auto [content, format] = Unsealed(kFormats, text);
    Manifest manifest{MetadataFrom(content), ContentsFrom(content)};
    manifest.metadata.has_values = format != kWithoutValues;
    for (Entry& entry : manifest.contents.tensors) CheckWhole(entry);
    return manifest;
  });
}

absl::StatusOr<std::string> ReadManifestText(const std::string& folder, Disk& disk) {
  return ReadSmallFile(StrCat(folder, "/", kManifestFile), kLongest, disk);
}

absl::Status CheckFiles(const std::string& folder, const Contents& contents, Disk& disk) {
  for (const FileSum& file : contents.files) {
    if (const auto opened = CheckedFile::Open(folder, file, disk); !opened.ok()) return opened.status();
  }
  return absl::OkStatus();
}

std::string PartText(const Contents& part) { return Sealed(kPartFormats[0], ToJson(part)); }

absl::StatusOr<Contents> ParsePart(const std::string& path, const std::string& text) {
  return Guarded(path, [&] { return ContentsFrom(Unsealed(kPartFormats, text).content); });
}

absl::StatusOr<Contents> Merge(const std::string& where, std::vector<Contents> parts) {
  return Guarded(where, [&] {
    Contents all;
    std::map<std::string, size_t> index;
    for (Contents& part : parts) {
      const auto files = static_cast<int64_t>(all.files.size());
      for (FileSum& file : part.files) all.files.push_back(std::move(file));
      for (Entry& entry : part.tensors) {
        for (Piece& piece : entry.pieces) piece.file += files;
        const auto [found, fresh] = index.emplace(entry.name, all.tensors.size());
        if (fresh) {
          all.tensors.push_back(std::move(entry));
          continue;
        }
        Entry& other = all.tensors[found->second];
        if (other.dtype != entry.dtype || other.shape != entry.shape) {
          throw Wrong{StrCat("tensor ", Shown(entry.name), ": is ", DTypeName(other.dtype), other.shape.ToString(),
                             " for one rank and ", DTypeName(entry.dtype), entry.shape.ToString(), " for another")};
        }
        if (other.row() != entry.row()) {
          throw Wrong{StrCat("tensor ", Shown(entry.name), ": has rows of ", other.row(), " for one rank and of ",
                             entry.row(), " for another")};
        }
        for (Piece& piece : entry.pieces) other.pieces.push_back(std::move(piece));
      }
    }
    for (Entry& entry : all.tensors) CheckWhole(entry);
    return all;
  });
}

}  // namespace twofold::checkpoint
