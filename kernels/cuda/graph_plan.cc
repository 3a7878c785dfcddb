#include "kernels/cuda/graph_plan.h"

#include <algorithm>
#include <array>

#include "core/base/check.h"
#include "core/base/strings.h"
#include "kernels/cuda/error.h"

namespace twofold::cuda {
namespace {

constexpr int64_t kMostEngines = 64;

cudnnDataType_t TypeOf(GraphType type, DType narrow) {
  switch (type) {
    case GraphType::kF32: return CUDNN_DATA_FLOAT;
    case GraphType::kI32: return CUDNN_DATA_INT32;
    case GraphType::kBool: return CUDNN_DATA_BOOLEAN;
    case GraphType::kNarrow:
      return narrow == DType::kF32 ? CUDNN_DATA_FLOAT : narrow == DType::kBF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
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
  d.Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64,
        t.aligned ? int64_t{16} : ElementSize(t.type == GraphType::kNarrow ? narrow : DType::kF32));
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

// The attributes of the operation of a convolution's pass, but for its tensors.
struct ConvolutionAttributes {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t how, alpha, beta;
};
ConvolutionAttributes AttributesOf(GraphStep step) {
  switch (step) {
    case GraphStep::kConvolve:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case GraphStep::kConvolveBack:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    default:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
  }
}

bool IsConvolution(const GraphNode& node) {
  return node.step == GraphStep::kConvolve || node.step == GraphStep::kConvolveBack ||
         node.step == GraphStep::kConvolveWeights;
}

Operation ConvolutionOf(const Cudnn& cudnn, const GraphNode& node) {
  const ConvolutionAttributes attributes = AttributesOf(node.step);
  BackendDescriptor how(cudnn, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR), operation(cudnn, attributes.operation);
  const std::array<int64_t, 2> ones = {1, 1}, strides = {node.stride, node.stride},
                               paddings = {node.padding, node.padding};
  how.Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  how.Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION);
  how.Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, int64_t{2});
  how.Set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, ones.data());
  how.Set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, strides.data());
  how.Set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, paddings.data());
  how.Set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, paddings.data());
  how.Finalize();
  operation.Set(attributes.how, how);
  operation.Set(attributes.alpha, CUDNN_TYPE_FLOAT, 1.0f);
  operation.Set(attributes.beta, CUDNN_TYPE_FLOAT, 0.0f);
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
    case GraphStep::kConvolve:
      return {{CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W},
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
    case GraphStep::kConvolveBack:
      return {{CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W},
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX};
    case GraphStep::kConvolveWeights:
      return {{CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X},
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW};
    default:
      return {{CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
               CUDNN_ATTR_OPERATION_POINTWISE_TDESC},
              CUDNN_ATTR_OPERATION_POINTWISE_YDESC};
  }
}
Operation OperationOf(const Cudnn& cudnn, const GraphNode& node) {
  switch (node.step) {
    case GraphStep::kMatMul: return MatMulOf(cudnn);
    case GraphStep::kMaximum:
    case GraphStep::kSum: return ReductionOf(cudnn, node.step);
    case GraphStep::kView: return {{}, BackendDescriptor(cudnn, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR)};
    case GraphStep::kConvolve:
    case GraphStep::kConvolveBack:
    case GraphStep::kConvolveWeights: return ConvolutionOf(cudnn, node);
    default: return PointwiseOf(cudnn, node.step);
  }
}

std::string TooLittle(size_t needed, size_t most_bytes) {
  return StrCat("cuDNN needs a workspace of ", needed, " bytes and has only ", most_bytes);
}

// What cuDNN says of an engine's results.
class Notes {
 public:
  explicit Notes(const BackendDescriptor& engine)
      : count_(engine.Get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT,
                          notes_.data())) {}
  bool Has(cudnnBackendNumericalNote_t note) const {
    return std::find(notes_.begin(), notes_.begin() + count_, note) != notes_.begin() + count_;
  }

 private:
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes_;
  int64_t count_;
};

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

GraphPlan::GraphPlan(const Cudnn& cudnn, LibraryGraph graph, const PlannedFor& where)
    : cudnn_(cudnn),
      graph_(std::move(graph)),
      where_(where),
      operation_graph_(cudnn, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
  for (const GraphTensor& t : graph_.tensors) {
    if (t.value) constants_.push_back(*t.value);
  }
  Describe();
  AskForEngines(CUDNN_HEUR_MODE_A);
  // Of exact F32 convolutions the first list may have none that fits the workspace.
  if (std::any_of(graph_.nodes.begin(), graph_.nodes.end(), IsConvolution)) AskForEngines(CUDNN_HEUR_MODE_FALLBACK);
}

void GraphPlan::Describe() {
  for (size_t i = 0; i < graph_.tensors.size(); ++i) {
    descriptors_.push_back(TensorDescriptor(cudnn_, graph_.tensors[i], i, graph_.type));
  }
  for (const GraphNode& node : graph_.nodes) {
    Operation d = OperationOf(cudnn_, node);
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

void GraphPlan::AskForEngines(cudnnBackendHeurMode_t mode) {
  BackendDescriptor heuristic(cudnn_, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, operation_graph_);
  heuristic.Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
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
    const Notes notes(engine);
    engines_.push_back({.config = std::move(config),
                        .workspace_bytes = static_cast<size_t>(bytes),
                        .repeatable = !notes.Has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC),
                        .tensor_cores = notes.Has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE),
                        .rounds = notes.Has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) ||
                                  notes.Has(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)});
  }
}

bool GraphPlan::WantsMoreThan(size_t workspace_bytes) const {
  return std::any_of(engines_.begin(), engines_.end(),
                     [&](const Engine& engine) { return engine.workspace_bytes > workspace_bytes; });
}

std::string GraphPlan::TryToMake(const Engine& engine, size_t most_bytes) {
  if (engine.workspace_bytes > most_bytes) return TooLittle(engine.workspace_bytes, most_bytes);
  try {
    auto plan = std::make_unique<BackendDescriptor>(cudnn_, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    if (where_.handle != nullptr) plan->Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, where_.handle);
    if (where_.description != nullptr) plan->Set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *where_.description);
    plan->Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine.config);
    plan->Finalize();
    int64_t bytes = 0;
    plan->Get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &bytes);
    if (static_cast<size_t>(bytes) > most_bytes) return TooLittle(static_cast<size_t>(bytes), most_bytes);
    plan_ = std::move(plan);
    return "";
  } catch (const CudaError& e) {  // an engine that is unavailable after all
    return e.what();
  }
}

std::string GraphPlan::Make(const Needs& needs) {
  std::string why = "cuDNN has no engine for it on this GPU";
  for (const Engine& engine : engines_) {
    if (needs.repeatable && !engine.repeatable) {
      why = "cuDNN's engine is not deterministic";
    } else if (engine.rounds || (!needs.tensor_cores && engine.tensor_cores)) {
      why = "cuDNN's engine rounds operands or sums";
    } else if (why = TryToMake(engine, needs.most_bytes); why.empty()) {
      break;
    }
  }
  return why;
}

const BackendDescriptor& GraphPlan::PackOf(const GraphAddresses& tensors, std::byte* workspace) {
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

void GraphPlan::Run(cudnnHandle_t handle, const GraphAddresses& tensors, std::byte* workspace) {
  cudnn_.Check(cudnn_.BackendExecute(handle, plan_->get(), PackOf(tensors, workspace).get()), graph_.name);
}

}  // namespace twofold::cuda
