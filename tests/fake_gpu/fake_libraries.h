// Stand-ins for cuBLAS and cuDNN when GPUs are fakes.
#pragma once

namespace belfry::ops {

// Number of kernels of the fake cuDNN that have run in this process.
int FakeLibraryRuns();

}  // namespace belfry::ops
