#include "tests/fake_cuda/fake_cublas.h"

#include <cstring>

#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/fake_cuda_state.h"

namespace belfry::fake_cublas {
namespace {

struct Description {
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  const void* aux = nullptr;
  int64_t aux_stride = 0;
};

template <class Real, class T>
cublasStatus_t Make(T** handle, const Real& value) {
  *handle = reinterpret_cast<T*>(new Real(value));
  return CUBLAS_STATUS_SUCCESS;
}
template <class Real, class T>
cublasStatus_t End(T* handle) {
  delete reinterpret_cast<Real*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

Heuristic& TheHeuristic() {
  static auto* const heuristic = new Heuristic;
  return *heuristic;
}
std::vector<Run>& Runs() {
  static auto* const runs = new std::vector<Run>;
  return *runs;
}

}  // namespace belfry::fake_cublas

using namespace belfry::fake_cublas;  // NOLINT: cuBLASLt's functions are global

extern "C" {

const char* cublasLtGetStatusString(cublasStatus_t) { return "fake status"; }
size_t cublasLtGetVersion() { return 1; }
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) { return Make(handle, char(0)); }
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return End<char>(handle); }
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t, cudaDataType_t) {
  return Make(made, Description());
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t made) { return End<Description>(made); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t made, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  auto& description = *reinterpret_cast<Description*>(made);
  if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE) std::memcpy(&description.epilogue, value, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER) std::memcpy(&description.bias, value, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER) std::memcpy(&description.aux, value, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD) std::memcpy(&description.aux_stride, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType type, uint64_t, uint64_t,
                                          int64_t) {
  return Make(made, type);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t made) { return End<cudaDataType>(made); }
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t, const void*,
                                                size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) { return Make(made, char(0)); }
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t made) { return End<char>(made); }
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                                                    const void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t made, cublasLtMatrixLayout_t first,
                                              cublasLtMatrixLayout_t second, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t result, cublasLtMatmulPreference_t, int most,
                                              cublasLtMatmulHeuristicResult_t results[], int* found) {
  Heuristic& heuristic = TheHeuristic();
  const auto& description = *reinterpret_cast<Description*>(made);
  heuristic.first = *reinterpret_cast<cudaDataType*>(first);
  heuristic.second = *reinterpret_cast<cudaDataType*>(second);
  heuristic.result = *reinterpret_cast<cudaDataType*>(result);
  heuristic.epilogue = description.epilogue;
  heuristic.bias = description.bias;
  heuristic.aux = description.aux;
  heuristic.aux_stride = description.aux_stride;
  for (*found = 0; *found < most && *found < static_cast<int>(heuristic.states.size()); ++*found) {
    results[*found] = {};
    results[*found].algo.data[0] = static_cast<uint64_t>(*found);
    results[*found].state = heuristic.states[*found];
  }
  return heuristic.status;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t made, const void*, const void* first,
                              cublasLtMatrixLayout_t, const void*, cublasLtMatrixLayout_t, const void*, const void*,
                              cublasLtMatrixLayout_t, void* result, cublasLtMatrixLayout_t,
                              const cublasLtMatmulAlgo_t* algorithm, void*, size_t, cudaStream_t) {
  const auto& description = *reinterpret_cast<Description*>(made);
  Runs().push_back(
      {algorithm->data[0], description.bias, belfry::fake_cuda::Records(), first, description.aux, result});
  return CUBLAS_STATUS_SUCCESS;
}

// Functions of CUDA's runtime that measuring calls.
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  stream->Enqueue([=] { std::memset(belfry::fake_cuda::Real(memory), value, bytes); });
  return cudaSuccess;
}

}  // extern "C"
