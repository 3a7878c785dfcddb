// What a report says of asynchronous SGD (strategies/async_sgd).
#pragma once

#include "core/proto/report.pb.h"
#include "core/proto/spec.pb.h"
#include "experiments/program/report/rank_records.h"

namespace twofold {

// Adds report.async_sgd, from the records of server 0, which leads, and of the workers. Nothing if training was
// synchronous.
void AddAsyncSgd(const spec::Spec& spec, const RankRecords& records, report::Report& out);

}  // namespace twofold
