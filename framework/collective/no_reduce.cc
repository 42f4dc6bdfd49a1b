#include "framework/collective/gpu_reduce.h"
#include "framework/collective/reach.h"

namespace belfry {
namespace {

absl::Status NoCuda() { return absl::UnimplementedError("Cannot average on GPUs: this Belfry was built without CUDA"); }

}  // namespace

absl::Status WriteEntry(Stream&, RankEntry*, void*, const float*) { return NoCuda(); }

absl::Status ReduceEntries(Stream&, CollectiveKind, DType, RankEntry*, int, int64_t) { return NoCuda(); }

absl::Status ScaleByWeight(Stream&, DType, int64_t, void*, const float*, const float*) { return NoCuda(); }

absl::Status DivideByTotal(Stream&, DType, int64_t, void*, const float*) { return NoCuda(); }

bool Reaches(const Device&, const Device&) { return false; }

}  // namespace belfry
