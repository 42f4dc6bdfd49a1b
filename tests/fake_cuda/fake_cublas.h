// The part of cuBLASLt that ops/cublas calls. It knows algorithms, but computes nothing.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <vector>

namespace belfry::fake_cublas {

// The last question to the heuristic, and its answers.
struct Heuristic {
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  std::vector<cublasStatus_t> states = {CUBLAS_STATUS_SUCCESS};  // of the algorithms 0, 1 ...

  cudaDataType_t first{}, second{}, result{};
  cublasLtEpilogue_t epilogue{};
  const void* bias = nullptr;
  const void* aux = nullptr;
  int64_t aux_stride = 0;
};
Heuristic& TheHeuristic();

// A product that was run.
struct Run {
  uint64_t algorithm;
  const void* bias;
  int records;  // of events before it
  const void *first, *aux, *result;
};
std::vector<Run>& Runs();

}  // namespace belfry::fake_cublas
