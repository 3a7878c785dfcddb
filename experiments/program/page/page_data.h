// What a page carries of its runs, for its scripts (web/data.js reads it).
//
// A gzip stream in base64 of
//   4 bytes           the length of the text, little-endian
//   a text            JSON: of each run its report, its streams, the tables of names, the pipeline's passes
//   columns           LEB128 numbers, signed ones zigzag: of each run, for each stream
//                       starts (nanoseconds since the end of the span before, signed), lengths (nanoseconds), names,
//                       labels, shapes (indices into the tables), bytes, waiting, exposed (both nanoseconds);
//                     then for each rank with memory
//                       times (nanoseconds), live bytes of each category, reserved bytes: differences, signed;
//                       of its blocks, if they are known: owners (places in its list), bytes, segments, offsets, first
//                       samples (differences, signed), numbers of samples;
//                       of its segments: numbers, bytes, first samples (differences, signed), numbers of samples
//
// Columns of small numbers compress well: a million spans take some megabytes.
#pragma once

#include <string>
#include <vector>

#include "experiments/program/pictures/run_data.h"

namespace twofold::page {

std::string PageData(const std::vector<const pictures::RunData*>& runs);

// The same form for any JSON text.
std::string Packed(const std::string& json, const std::string& columns = "");

}  // namespace twofold::page
