#include "strategies/elastic/messages.h"

namespace twofold::elastic {

PieceMessages ToMessages(const Pieces& pieces) {
  PieceMessages all;
  for (const Piece& piece : pieces) {
    PieceMessage& p = *all.Add();
    p.set_name(piece.name), p.set_dtype(static_cast<int>(piece.dtype)), p.set_numel(piece.numel);
    p.set_row(piece.where.row), p.set_column(piece.where.column), p.set_width(piece.where.width);
    p.set_first(piece.where.first), p.set_count(piece.where.count);
  }
  return all;
}

Pieces FromMessages(const PieceMessages& messages) {
  Pieces pieces;
  for (const PieceMessage& p : messages) {
    pieces.push_back(
        {p.name(),
         static_cast<DType>(p.dtype()),
         p.numel(),
         {.row = p.row(), .column = p.column(), .width = p.width(), .first = p.first(), .count = p.count()}});
  }
  return pieces;
}

}  // namespace twofold::elastic
