// The parts of Validate (spec.h). Each adds the problems it finds.
#pragma once

#include "core/proto/spec.pb.h"
#include "experiments/program/spec/problems/problems.h"

namespace twofold {

void CheckModel(const spec::Model& model, Problems& problems);
void CheckData(const spec::Spec& spec, Problems& problems);   // paths, and whether the data fits the model
void CheckTrain(const spec::Spec& spec, Problems& problems);  // train, but for what only some strategies have
void CheckActivationCheckpointing(const spec::Spec& spec, Problems& problems);  // train.activation_checkpointing
void CheckValidation(const spec::Spec& spec, Problems& problems);               // train.validation
void CheckPrecision(const spec::Precision& precision, Problems& problems);      // train.precision
// train.precision.matmul and train.precision.fp8
void CheckFp8(const spec::Spec& spec, Problems& problems);
void CheckZeroPlusPlus(const spec::Spec& spec, Problems& problems);  // parallel.zero_plus_plus
void CheckCompression(const spec::Spec& spec, Problems& problems);   // parallel.compression
void CheckOneBitAdam(const spec::Spec& spec, Problems& problems);    // train.optimizer.one_bit_adam
void CheckQuantize(const spec::Quantize& quantize, const std::string& path, Problems& problems);
void CheckLocalUpdate(const spec::Spec& spec, Problems& problems);  // train.local_update and parallel.islands
void CheckAsyncSgd(const spec::Spec& spec, Problems& problems);     // train.async_sgd
void CheckElastic(const spec::Spec& spec, Problems& problems);      // train.elastic
void CheckParallel(const spec::Spec& spec, Problems& problems);     // parallel's axes, the pipeline, and their options
void CheckSharding(const spec::Spec& spec, Problems& problems);     // parallel.sharding and its options; buckets
// The messages of a pipeline; the rest of the spec must be valid.
void CheckMessages(const spec::Spec& spec, Problems& problems);
void CheckUnits(const spec::Spec& spec, Problems& problems);  // parallel.wrap; the rest of the spec must be valid
void CheckFabric(const spec::Spec& spec, Problems& problems);
void CheckEmulated(const spec::Spec& spec, Problems& problems);
void CheckCuda(const spec::Spec& spec, Problems& problems);
// fabric.simulated: collectives, routing, faults, stragglers
void CheckSimulatedNetwork(const spec::Spec& spec, Problems& problems);
void CheckInMemoryStragglers(const spec::Spec& spec, Problems& problems);  // fabric.in_memory.stragglers
void CheckSites(const spec::Spec& spec, Problems& problems);               // of fabric.simulated or fabric.in_memory
void CheckCheckpoint(const spec::Spec& spec, Problems& problems);          // train.checkpoint and train.resume
void CheckFaults(const spec::Spec& spec, Problems& problems);              // fabric.simulated.faults

}  // namespace twofold
