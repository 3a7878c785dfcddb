#include "strategies/elastic/messages.h"

#include "core/base/errors.h"
#include "core/proto/elastic.pb.h"

namespace twofold::elastic {
namespace {

using PieceMessages = google::protobuf::RepeatedPtrField<PieceMessage>;

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

OfferMessage ToMessage(const Offer& offer) {
  OfferMessage m;
  m.set_trained(offer.trained), m.set_prepared(offer.prepared), m.set_began(offer.began), m.set_steps(offer.steps);
  m.set_updates(offer.updates), m.set_samples(offer.samples), m.set_saved_steps(offer.saved_steps);
  m.mutable_scalars()->insert(offer.scalars.begin(), offer.scalars.end());
  *m.mutable_pieces() = ToMessages(offer.pieces);
  *m.mutable_left_out() = ToMessages(offer.left_out);
  return m;
}
Offer FromMessage(const OfferMessage& m) {
  return {.trained = m.trained(),
          .prepared = m.prepared(),
          .began = m.began(),
          .steps = m.steps(),
          .updates = m.updates(),
          .samples = m.samples(),
          .saved_steps = m.saved_steps(),
          .scalars = {m.scalars().begin(), m.scalars().end()},
          .pieces = FromMessages(m.pieces()),
          .left_out = FromMessages(m.left_out())};
}

NeedsMessage ToMessage(const Needs& needs) {
  NeedsMessage m;
  *m.mutable_pieces() = ToMessages(needs.pieces);
  *m.mutable_left_out() = ToMessages(needs.left_out);
  return m;
}
Needs FromMessage(const NeedsMessage& m) {
  return {.pieces = FromMessages(m.pieces()), .left_out = FromMessages(m.left_out())};
}

StartMessage ToMessage(const Start& start) {
  StartMessage m;
  m.set_steps(start.steps), m.set_samples(start.samples), m.set_from(start.from),
      m.set_sequence_before(start.sequence_before);
  return m;
}
Start FromMessage(const StartMessage& m) { return {m.steps(), m.samples(), m.from(), m.sequence_before()}; }

template <class Told>
std::vector<Told> Exchange(RankContext& ctx, const Told& mine) {
  auto message = ToMessage(mine);
  std::vector<Told> all;
  for (const std::string& bytes : ctx.Exchange(message.SerializeAsString())) {
    if (!message.ParseFromString(bytes))
      throw RankFailure(RankFailure::Kind::kOther, ctx.member(), "a member sent a description that cannot be read");
    all.push_back(FromMessage(message));
  }
  return all;
}

}  // namespace

std::vector<Offer> ExchangeAll(RankContext& ctx, const Offer& mine) { return Exchange(ctx, mine); }
std::vector<Needs> ExchangeAll(RankContext& ctx, const Needs& mine) { return Exchange(ctx, mine); }
std::vector<Start> ExchangeAll(RankContext& ctx, const Start& mine) { return Exchange(ctx, mine); }

}  // namespace twofold::elastic
