// What stands for cuBLAS and cuDNN where GPUs are fakes.
#pragma once

namespace belfry::ops {

// How often a kernel of the fake cuDNN has run in this process.
int FakeLibraryRuns();

}  // namespace belfry::ops
