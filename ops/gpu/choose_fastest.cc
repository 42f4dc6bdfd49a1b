#include <cuda_runtime.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/device/cuda/native.h"
#include "ops/gpu/autotune.h"

namespace belfry::ops {
namespace {

constexpr int kWarmUps = 1, kMeasurements = 3;
// Between two events, so that the gap after the first one counts for little: a replayed graph has none.
constexpr int kRuns = 10;

absl::Status Check(cudaError_t error, absl::string_view what) {
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(what, ": ", cudaGetErrorString(error)));
}

class Timer {
 public:
  Timer() = default;
  Timer(const Timer&) = delete;
  ~Timer() {
    if (begin_ != nullptr) cudaEventDestroy(begin_);
    if (end_ != nullptr) cudaEventDestroy(end_);
  }
  absl::Status Init() {
    RETURN_IF_ERROR(Check(cudaEventCreate(&begin_), "cudaEventCreate"));
    return Check(cudaEventCreate(&end_), "cudaEventCreate");
  }
  // The mean time of a run in the fastest of several measurements, in milliseconds. One that is far above `limit`, the
  // time of another candidate, is the last.
  absl::StatusOr<float> Measure(Stream& stream, float limit, const std::function<absl::Status()>& run) {
    for (int i = 0; i < kWarmUps; ++i) RETURN_IF_ERROR(run());
    float best = std::numeric_limits<float>::max();
    for (int i = 0; i < kMeasurements && (i == 0 || best / 2 < limit); ++i) {
      RETURN_IF_ERROR(Check(cudaEventRecord(begin_, NativeStream(stream)), "cudaEventRecord"));
      for (int k = 0; k < kRuns; ++k) RETURN_IF_ERROR(run());
      RETURN_IF_ERROR(Check(cudaEventRecord(end_, NativeStream(stream)), "cudaEventRecord"));
      RETURN_IF_ERROR(Check(cudaEventSynchronize(end_), "cudaEventSynchronize"));
      float milliseconds = 0;
      RETURN_IF_ERROR(Check(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime"));
      best = std::min(best, milliseconds / kRuns);
    }
    return best;
  }

 private:
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

absl::StatusOr<AutotuneCache*> CacheOf(Device& device) {
  return device.Shared<AutotuneCache>([] {
    return absl::StatusOr<std::unique_ptr<AutotuneCache>>(
        std::make_unique<AutotuneCache>(AutotuneCache::DefaultPath()));
  });
}
std::string KeyFor(const Device& device, absl::string_view key) { return absl::StrCat(device.model(), " ", key); }

}  // namespace

absl::StatusOr<int> KnownFastest(Device& device, absl::string_view key, int count) {
  if (count == 1) return 0;
  ASSIGN_OR_RETURN(AutotuneCache* const cache, CacheOf(device));
  return cache->Find(KeyFor(device, key), count);
}

absl::Status RememberFastest(Device& device, absl::string_view key, int count, int index) {
  ASSIGN_OR_RETURN(AutotuneCache* const cache, CacheOf(device));
  cache->Add(KeyFor(device, key), count, index);
  return absl::OkStatus();
}

absl::StatusOr<int> ChooseFastest(Device& device, absl::string_view key, int count, absl::Span<const size_t> bytes,
                                  const AutotuneRun& run) {
  ASSIGN_OR_RETURN(const int known, KnownFastest(device, key, count));
  return known >= 0 ? known : MeasureFastest(device, key, count, bytes, run);
}

absl::StatusOr<int> MeasureFastest(Device& device, absl::string_view key, int count, absl::Span<const size_t> bytes,
                                   const AutotuneRun& run) {
  ASSIGN_OR_RETURN(AutotuneCache* const cache, CacheOf(device));
  ASSIGN_OR_RETURN(const std::unique_ptr<Stream> stream, device.NewStream(StreamKind::kCompute));
  std::vector<DeviceMemory> memory;
  std::vector<void*> blocks;
  for (const size_t size : bytes) {
    absl::StatusOr<DeviceMemory> block = DeviceMemory::Allocate(device, size);
    if (absl::IsResourceExhausted(block.status())) {
      RETURN_IF_ERROR(stream->Synchronize());
      return 0;
    }
    RETURN_IF_ERROR(block.status());
    memory.push_back(*std::move(block));
    blocks.push_back(memory.back().data());
    const int byte = blocks.size() == bytes.size() ? 0xff : 0;
    if (size > 0) {
      RETURN_IF_ERROR(Check(cudaMemsetAsync(blocks.back(), byte, size, NativeStream(*stream)), "cudaMemsetAsync"));
    }
  }
  Timer timer;
  RETURN_IF_ERROR(timer.Init());
  int chosen = -1;
  float best = std::numeric_limits<float>::max();
  absl::Status failure = absl::UnimplementedError("no candidate");
  for (int candidate = 0; candidate < count; ++candidate) {
    const absl::StatusOr<float> time =
        timer.Measure(*stream, best, [&] { return run(candidate, *stream, absl::MakeConstSpan(blocks)); });
    if (!time.ok()) {
      failure = time.status();
      continue;
    }
    if (*time < best) {
      best = *time;
      chosen = candidate;
    }
  }
  RETURN_IF_ERROR(stream->Synchronize());
  if (chosen < 0) {
    return absl::UnimplementedError(
        absl::StrCat("none of ", count, " ways to compute ", key, " works; the last one: ", failure.message()));
  }
  cache->Add(KeyFor(device, key), count, chosen);
  return chosen;
}

}  // namespace belfry::ops
