#include "kernels/cuda/attention_plan.h"

#include <algorithm>
#include <array>

#include "core/base/check.h"
#include "core/base/strings.h"
#include "kernels/cuda/error.h"

namespace twofold::cuda {
namespace {

constexpr int64_t kMostEngines = 32;

cudnnDataType_t TypeOf(GraphType type, DType narrow) {
  switch (type) {
    case GraphType::kF32: return CUDNN_DATA_FLOAT;
    case GraphType::kI32: return CUDNN_DATA_INT32;
    case GraphType::kBool: return CUDNN_DATA_BOOLEAN;
    case GraphType::kNarrow: return narrow == DType::kBF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
  }
  TWOFOLD_CHECK(false, "every type of a graph has a cuDNN type");
}

cudnnPointwiseMode_t PointwiseOf(GraphStep step) {
  switch (step) {
    case GraphStep::kMultiply: return CUDNN_POINTWISE_MUL;
    case GraphStep::kSubtract: return CUDNN_POINTWISE_SUB;
    case GraphStep::kAdd: return CUDNN_POINTWISE_ADD;
    case GraphStep::kDivide: return CUDNN_POINTWISE_DIV;
    case GraphStep::kExp: return CUDNN_POINTWISE_EXP;
    case GraphStep::kLog: return CUDNN_POINTWISE_LOG;
    case GraphStep::kIdentity: return CUDNN_POINTWISE_IDENTITY;
    case GraphStep::kRow:
    case GraphStep::kColumn: return CUDNN_POINTWISE_GEN_INDEX;
    case GraphStep::kNotBefore: return CUDNN_POINTWISE_CMP_GE;
    case GraphStep::kSelect: return CUDNN_POINTWISE_BINARY_SELECT;
    default: TWOFOLD_CHECK(false, "only pointwise steps have a pointwise mode");
  }
}

int64_t UniqueId(size_t tensor) { return static_cast<int64_t>(tensor) + 1; }

BackendDescriptor TensorDescriptor(const Cudnn& cudnn, const GraphTensor& t, size_t index, DType narrow) {
  BackendDescriptor d(cudnn, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  d.Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, UniqueId(index));
  d.Set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, TypeOf(t.type, narrow));
  d.Set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, t.dims.data());
  d.Set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, t.strides.data());
  d.Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, int64_t{16});
  d.Set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, !t.operand && !t.value);
  d.Set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, t.value.has_value());
  d.Finalize();
  return d;
}

// The operation of a node, and the descriptors that it needs.
struct Operation {
  std::vector<BackendDescriptor> how;
  BackendDescriptor operation;
};

Operation MatMulOf(const Cudnn& cudnn) {
  BackendDescriptor how(cudnn, CUDNN_BACKEND_MATMUL_DESCRIPTOR),
      operation(cudnn, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  how.Set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  how.Finalize();
  operation.Set(CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
  Operation d{{}, std::move(operation)};
  d.how.push_back(std::move(how));
  return d;
}

Operation ReductionOf(const Cudnn& cudnn, GraphStep step) {
  BackendDescriptor how(cudnn, CUDNN_BACKEND_REDUCTION_DESCRIPTOR),
      operation(cudnn, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  how.Set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  how.Set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE,
          step == GraphStep::kMaximum ? CUDNN_REDUCE_TENSOR_MAX : CUDNN_REDUCE_TENSOR_ADD);
  how.Finalize();
  operation.Set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
  Operation d{{}, std::move(operation)};
  d.how.push_back(std::move(how));
  return d;
}

Operation PointwiseOf(const Cudnn& cudnn, GraphStep step) {
  BackendDescriptor how(cudnn, CUDNN_BACKEND_POINTWISE_DESCRIPTOR),
      operation(cudnn, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  how.Set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, PointwiseOf(step));
  how.Set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE,
          step == GraphStep::kNotBefore ? CUDNN_DATA_BOOLEAN : CUDNN_DATA_FLOAT);
  if (step == GraphStep::kRow || step == GraphStep::kColumn)
    how.Set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, int64_t{step == GraphStep::kRow ? 2 : 3});
  how.Finalize();
  operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
  Operation d{{}, std::move(operation)};
  d.how.push_back(std::move(how));
  return d;
}

// The attributes of a node's operation to which its tensors are assigned.
struct Ports {
  std::vector<cudnnBackendAttributeName_t> in;
  cudnnBackendAttributeName_t out;
};
Ports PortsOf(GraphStep step) {
  switch (step) {
    case GraphStep::kMatMul:
      return {{CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC},
              CUDNN_ATTR_OPERATION_MATMUL_CDESC};
    case GraphStep::kMaximum:
    case GraphStep::kSum: return {{CUDNN_ATTR_OPERATION_REDUCTION_XDESC}, CUDNN_ATTR_OPERATION_REDUCTION_YDESC};
    case GraphStep::kView: return {{CUDNN_ATTR_OPERATION_RESHAPE_XDESC}, CUDNN_ATTR_OPERATION_RESHAPE_YDESC};
    default:
      return {{CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
               CUDNN_ATTR_OPERATION_POINTWISE_TDESC},
              CUDNN_ATTR_OPERATION_POINTWISE_YDESC};
  }
}
Operation OperationOf(const Cudnn& cudnn, GraphStep step) {
  switch (step) {
    case GraphStep::kMatMul: return MatMulOf(cudnn);
    case GraphStep::kMaximum:
    case GraphStep::kSum: return ReductionOf(cudnn, step);
    case GraphStep::kView: return {{}, BackendDescriptor(cudnn, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR)};
    default: return PointwiseOf(cudnn, step);
  }
}

bool SaidNotRepeatable(const BackendDescriptor& engine) {
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes;
  const int64_t count = engine.Get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                   CUDNN_NUMERICAL_NOTE_TYPE_COUNT, notes.data());
  return std::find(notes.begin(), notes.begin() + count, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) !=
         notes.begin() + count;
}

}  // namespace

BackendDescriptor::BackendDescriptor(const Cudnn& cudnn, cudnnBackendDescriptorType_t type)
    : cudnn_(&cudnn), raw_(nullptr, Destroy{&cudnn}) {
  cudnnBackendDescriptor_t raw = nullptr;
  cudnn.Check(cudnn.BackendCreateDescriptor(type, &raw),
              StrCat("creating a descriptor of type ", static_cast<int>(type)));
  raw_.reset(raw);
}

void BackendDescriptor::Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                            const void* values) {
  cudnn_->Check(cudnn_->BackendSetAttribute(get(), name, type, count, values),
                StrCat("setting attribute ", static_cast<int>(name)));
}

void BackendDescriptor::Finalize() { cudnn_->Check(cudnn_->BackendFinalize(get()), "finalizing a descriptor"); }

int64_t BackendDescriptor::Get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t room,
                               void* values) const {
  int64_t count = 0;
  cudnn_->Check(cudnn_->BackendGetAttribute(get(), name, type, room, &count, values),
                StrCat("reading attribute ", static_cast<int>(name)));
  return std::min(count, room);
}

AttentionPlan::AttentionPlan(const Cudnn& cudnn, const LibraryAttention& a, const PlannedFor& where)
    : cudnn_(cudnn),
      attention_(a),
      where_(where),
      graph_(GraphOf(a)),
      operation_graph_(cudnn, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
  for (const GraphTensor& t : graph_.tensors) {
    if (t.value) constants_.push_back(*t.value);
  }
  Describe();
  AskForEngines();
}

void AttentionPlan::Describe() {
  for (size_t i = 0; i < graph_.tensors.size(); ++i) {
    descriptors_.push_back(TensorDescriptor(cudnn_, graph_.tensors[i], i, attention_.type));
  }
  for (const GraphNode& node : graph_.nodes) {
    Operation d = OperationOf(cudnn_, node.step);
    const Ports ports = PortsOf(node.step);
    for (size_t i = 0; i < node.in.size(); ++i) d.operation.Set(ports.in[i], descriptors_[node.in[i]]);
    d.operation.Set(ports.out, descriptors_[node.out]);
    d.operation.Finalize();
    operations_.push_back(d.operation.get());
    for (BackendDescriptor& how : d.how) descriptors_.push_back(std::move(how));
    descriptors_.push_back(std::move(d.operation));
  }
  if (where_.handle != nullptr)
    operation_graph_.Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, where_.handle);
  operation_graph_.Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                       static_cast<int64_t>(operations_.size()), operations_.data());
  operation_graph_.Finalize();
}

void AttentionPlan::AskForEngines() {
  BackendDescriptor heuristic(cudnn_, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, operation_graph_);
  heuristic.Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A);
  if (where_.description != nullptr) heuristic.Set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *where_.description);
  heuristic.Finalize();
  std::vector<BackendDescriptor> configs;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int64_t i = 0; i < kMostEngines; ++i)
    raw.push_back(configs.emplace_back(cudnn_, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get());
  const int64_t count =
      heuristic.Get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, kMostEngines, raw.data());
  for (int64_t i = 0; i < count; ++i) {
    BackendDescriptor& config = configs[static_cast<size_t>(i)];
    const BackendDescriptor engine(cudnn_, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendDescriptor_t into = engine.get();
    int64_t bytes = 0;
    config.Get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &into);
    config.Get(CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &bytes);
    engines_.push_back({std::move(config), static_cast<size_t>(bytes), !SaidNotRepeatable(engine)});
  }
}

std::string AttentionPlan::Make(size_t most_bytes) {
  if (engines_.empty()) return "cuDNN has no engine for this attention on this GPU";
  std::string why;
  for (const Engine& engine : engines_) {
    if (attention_.repeatable && !engine.repeatable) {
      why = "cuDNN's engine is not deterministic";
    } else if (engine.workspace_bytes > most_bytes) {
      why = StrCat("cuDNN needs a workspace of ", engine.workspace_bytes, " bytes and has only ", most_bytes);
    } else {
      try {
        auto plan = std::make_unique<BackendDescriptor>(cudnn_, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        if (where_.handle != nullptr) plan->Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, where_.handle);
        if (where_.description != nullptr) plan->Set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *where_.description);
        plan->Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine.config);
        plan->Finalize();
        int64_t bytes = 0;
        plan->Get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &bytes);
        if (static_cast<size_t>(bytes) <= most_bytes) {
          plan_ = std::move(plan);
          return "";
        }
        why = StrCat("cuDNN needs a workspace of ", bytes, " bytes and has only ", most_bytes);
      } catch (const CudaError& e) {  // an engine that is unavailable after all
        why = e.what();
      }
    }
  }
  return why;
}

const BackendDescriptor& AttentionPlan::PackOf(const GraphAddresses& tensors, std::byte* workspace) {
  const std::pair key(tensors, workspace);
  if (const auto found = packs_.find(key); found != packs_.end()) return found->second;
  if (packs_.size() == kMostPacks) packs_.clear();
  std::vector<int64_t> ids;
  std::vector<void*> at;
  size_t constant = 0;
  for (size_t i = 0; i < graph_.tensors.size(); ++i) {
    const GraphTensor& t = graph_.tensors[i];
    if (!t.operand && !t.value) continue;
    ids.push_back(UniqueId(i));
    at.push_back(t.operand ? tensors[static_cast<size_t>(*t.operand)] : &constants_[constant++]);
  }
  BackendDescriptor pack(cudnn_, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, static_cast<int64_t>(ids.size()), ids.data());
  pack.Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, static_cast<int64_t>(at.size()), at.data());
  pack.Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, static_cast<void*>(workspace));
  pack.Finalize();
  return packs_.emplace(key, std::move(pack)).first->second;
}

void AttentionPlan::Run(cudnnHandle_t handle, const GraphAddresses& tensors, std::byte* workspace) {
  cudnn_.Check(cudnn_.BackendExecute(handle, plan_->get(), PackOf(tensors, workspace).get()), NameOf(attention_));
}

}  // namespace twofold::cuda
