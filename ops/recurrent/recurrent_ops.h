// Registration of the recurrent ops, by source file. Internal.
#pragma once

#include "framework/graph/kernel_table.h"
#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterLstm(OpRegistry& registry);           // lstm.cc
void RegisterLstmGradients(OpRegistry& registry);  // lstm.cc
void RegisterGru(OpRegistry& registry);            // gru.cc
void RegisterGruGradients(OpRegistry& registry);   // gru.cc
void RegisterSequenceOps(OpRegistry& registry);    // sequence.cc

// In the CUDA module.
void AddLstmGpuKernels(KernelTable& table);      // lstm.cu
void AddGruGpuKernels(KernelTable& table);       // gru.cu
void AddSequenceGpuKernels(KernelTable& table);  // sequence.cu

}  // namespace belfry::ops
