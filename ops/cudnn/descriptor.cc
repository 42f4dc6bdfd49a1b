#include "ops/cudnn/descriptor.h"

#include <algorithm>
#include <array>
#include <string>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace belfry::cudnn {
namespace {

constexpr int kMaxConfigs = 32;

// Properties of an engine's arithmetic, as reported by cuDNN.
struct Notes {
  bool tensor_core = false, nondeterministic = false, narrows = false;
};

absl::StatusOr<Notes> NotesOf(const Descriptor& config) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  RETURN_IF_ERROR(engine.status());
  cudnnBackendDescriptor_t handle = engine.get();
  int64_t count = 0;
  RETURN_IF_ERROR(Check(cudnnBackendGetAttribute(config.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &handle),
                        "querying an engine"));
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  RETURN_IF_ERROR(Check(cudnnBackendGetAttribute(handle, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                                 CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes.data()),
                        "querying an engine's notes"));
  Notes result;
  for (int64_t i = 0; i < count && i < CUDNN_NUMERICAL_NOTE_TYPE_COUNT; ++i) {
    result.tensor_core = result.tensor_core || notes[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    // The engine rounds inputs to 16 bits, which gradients may not survive.
    result.narrows = result.narrows || notes[i] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS;
    result.nondeterministic = result.nondeterministic || notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
  }
  return result;
}

// The configurations that one of cuDNN's heuristics recommends.
absl::StatusOr<std::vector<Descriptor>> Recommended(const Target& target, const Descriptor& graph,
                                                    cudnnBackendHeurMode_t mode) {
  Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  if (target.described != nullptr) heuristic.Set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.described);
  heuristic.Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  RETURN_IF_ERROR(heuristic.Finalize());
  int64_t count = 0;
  RETURN_IF_ERROR(Check(cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr),
                        "querying a heuristic"));
  std::vector<Descriptor> configs;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (int64_t i = 0; i < count && i < kMaxConfigs; ++i) {
    configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    RETURN_IF_ERROR(configs.back().status());
    handles.push_back(configs.back().get());
  }
  if (configs.empty()) return configs;
  RETURN_IF_ERROR(
      Check(cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                     static_cast<int64_t>(handles.size()), &count, handles.data()),
            "querying a heuristic"));
  configs.erase(configs.begin() + std::min<int64_t>(count, static_cast<int64_t>(configs.size())), configs.end());
  return configs;
}

}  // namespace

absl::Status Check(cudnnStatus_t status, absl::string_view what) {
  if (status == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  std::array<char, 512> detail{};
  cudnnGetLastErrorString(detail.data(), detail.size());
  const std::string text =
      absl::StrCat("cuDNN: ", what, ": ", cudnnGetErrorString(status), detail[0] == '\0' ? "" : ": ", detail.data());
  if (status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
      status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED) {
    return absl::ResourceExhaustedError(text);
  }
  // Codes of one class have the same thousands.
  const bool unsupported = status / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000;
  return unsupported ? absl::UnimplementedError(text) : absl::InternalError(text);
}

Handle::~Handle() {
  if (handle != nullptr) cudnnDestroy(handle);
}

absl::StatusOr<std::unique_ptr<Handle>> Handle::Make() {
  auto made = std::make_unique<Handle>();
  RETURN_IF_ERROR(Check(cudnnCreate(&made->handle), "cudnnCreate"));
  return made;
}

absl::StatusOr<Descriptor> DescribeDevice(absl::string_view json) {
  Descriptor device(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  device.Set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, static_cast<int64_t>(json.size()),
             json.data());
  RETURN_IF_ERROR(device.Finalize());
  return device;
}

absl::StatusOr<Configs> FindConfigs(const Target& target, const std::vector<Descriptor>& operations,
                                    const ConfigFilter& filter) {
  Configs found{Descriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR), {}};
  std::vector<cudnnBackendDescriptor_t> handles;
  for (const Descriptor& operation : operations) handles.push_back(operation.get());
  found.graph.Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(handles.size()),
                  handles.data());
  if (target.described == nullptr) {
    found.graph.Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &target.handle);
  }
  RETURN_IF_ERROR(found.graph.Finalize());

  std::string failure = "cuDNN has no engine for these operations";
  int left_out = 0;
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    absl::StatusOr<std::vector<Descriptor>> configs = Recommended(target, found.graph, mode);
    if (!configs.ok()) {
      failure = std::string(configs.status().message());
      continue;
    }
    for (Descriptor& config : *configs) {
      const absl::StatusOr<Notes> notes = NotesOf(config);
      if (!notes.ok() || notes->narrows || (notes->tensor_core && !filter.tensor_cores) ||
          (notes->nondeterministic && filter.deterministic)) {
        ++left_out;
      } else {
        found.configs.push_back(std::move(config));
      }
    }
    if (mode == CUDNN_HEUR_MODE_A) found.recommended = static_cast<int>(found.configs.size());
  }
  if (!found.configs.empty()) return found;
  if (left_out > 0) {
    failure = absl::StrCat("none of cuDNN's ", left_out, " engines has the required precision and order of operations");
  }
  return absl::UnimplementedError(failure);
}

absl::StatusOr<ExecutionPlan> MakePlan(const Target& target, Descriptor config) {
  ExecutionPlan made{std::move(config), Descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)};
  if (target.described == nullptr) {
    made.plan.Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &target.handle);
  } else {
    made.plan.Set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.described);
  }
  made.plan.Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, made.config);
  RETURN_IF_ERROR(made.plan.Finalize());
  int64_t bytes = 0, count = 0;
  RETURN_IF_ERROR(Check(cudnnBackendGetAttribute(made.plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                 CUDNN_TYPE_INT64, 1, &count, &bytes),
                        "querying the workspace size"));
  made.workspace_bytes = static_cast<size_t>(bytes);
  return made;
}

absl::StatusOr<Descriptor> MakeVariantPack(const std::vector<int64_t>& ids, const std::vector<void*>& data,
                                           void* workspace) {
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids);
  pack.Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, static_cast<int64_t>(data.size()), data.data());
  pack.Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  RETURN_IF_ERROR(pack.Finalize());
  return pack;
}

}  // namespace belfry::cudnn
