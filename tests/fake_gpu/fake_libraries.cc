// Fake GPUs have no libraries for products and convolutions, so these are handled by our own kernels. Batch norm and
// pooling have one for channels in multiples of four, and attention for an even number of examples, written from the
// formulae and slow. It is used wherever it applies, so that tests cover the code around it.
#include "tests/fake_gpu/fake_libraries.h"

#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "framework/base/half.h"
#include "framework/base/status.h"
#include "ops/cublas/matmul.h"
#include "ops/cudnn/attention.h"
#include "ops/cudnn/batch_norm.h"
#include "ops/cudnn/convolution.h"
#include "ops/cudnn/pool.h"
#include "ops/gpu/autotune.h"
#include "tests/fake_gpu/fake_gpu.h"

namespace belfry::ops {
namespace {

std::atomic<int> library_runs{0};

// The elements of a tensor of any floating-point dtype, or of winners.
struct Elements {
  DType dtype;
  void* data;

  double operator[](int64_t i) const {
    switch (dtype) {
      case DType::kFloat16: return static_cast<float>(static_cast<const Half*>(data)[i]);
      case DType::kBFloat16: return static_cast<float>(static_cast<const BFloat16*>(data)[i]);
      case DType::kUInt8: return static_cast<const uint8_t*>(data)[i];
      case DType::kInt32: return static_cast<const int32_t*>(data)[i];
      default: return static_cast<const float*>(data)[i];
    }
  }
  void Set(int64_t i, double value) const {
    switch (dtype) {
      case DType::kFloat16: static_cast<Half*>(data)[i] = Half(static_cast<float>(value)); break;
      case DType::kBFloat16: static_cast<BFloat16*>(data)[i] = BFloat16(static_cast<float>(value)); break;
      case DType::kUInt8: static_cast<uint8_t*>(data)[i] = static_cast<uint8_t>(value); break;
      case DType::kInt32: static_cast<int32_t*>(data)[i] = static_cast<int32_t>(value); break;
      default: static_cast<float*>(data)[i] = static_cast<float>(value);
    }
  }
};

// Runs `work` on the operands, on the stream's thread.
template <class Work>
LibraryCore Core(const Work& work) {
  return {[work](Stream& stream, absl::Span<void* const> operands, void*) {
            EnqueueOnFakeGpu(stream, [work, at = std::vector<void*>(operands.begin(), operands.end())] {
              library_runs.fetch_add(1);
              work(at);
              return absl::OkStatus();
            });
            return absl::OkStatus();
          },
          /*workspace_bytes=*/0};
}

void Normalize(const GpuBatchNorm& p, const std::vector<void*>& at) {
  const int64_t rows = p.n * p.pixels;
  const int last = p.add ? 4 : 3;
  const Elements x{p.dtype, at[0]}, addend{p.dtype, at[3]}, y{p.dtype, at[last]};
  const auto *const scale = static_cast<const float*>(at[1]), *const offset = static_cast<const float*>(at[2]);
  for (int64_t c = 0; c < p.channels; ++c) {
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < rows; ++i) mean += x[i * p.channels + c] / static_cast<double>(rows);
    for (int64_t i = 0; i < rows; ++i) {
      variance += std::pow(x[i * p.channels + c] - mean, 2) / static_cast<double>(rows);
    }
    const double inverse = 1 / std::sqrt(variance + p.epsilon);
    for (int64_t i = c; i < rows * p.channels; i += p.channels) {
      const double sum = (x[i] - mean) * inverse * scale[c] + offset[c] + (p.add ? addend[i] : 0);
      y.Set(i, p.relu && sum < 0 ? 0 : sum);
    }
    static_cast<float*>(at[last + 1])[c] = static_cast<float>(mean);
    static_cast<float*>(at[last + 2])[c] = static_cast<float>(inverse);
  }
}

// y = (x - mean) inverse scale + offset, with mean and inverse as functions of x.
void NormalizeGradient(const GpuBatchNorm& p, const std::vector<void*>& at) {
  const auto rows = static_cast<double>(p.n * p.pixels);
  const Elements x{p.dtype, at[0]}, dy{p.dtype, at[1]}, dx{p.dtype, at[5]};
  for (int64_t c = 0; c < p.channels; ++c) {
    const double scale = static_cast<const float*>(at[2])[c], mean = static_cast<const float*>(at[3])[c];
    const double inverse = static_cast<const float*>(at[4])[c];
    double dscale = 0, doffset = 0;
    const int64_t end = p.n * p.pixels * p.channels;
    for (int64_t i = c; i < end; i += p.channels) {
      doffset += dy[i];
      dscale += dy[i] * (x[i] - mean) * inverse;
    }
    for (int64_t i = c; i < end; i += p.channels) {
      dx.Set(i, scale * inverse * (dy[i] - doffset / rows - (x[i] - mean) * inverse * dscale / rows));
    }
    static_cast<float*>(at[6])[c] = static_cast<float>(dscale);
    static_cast<float*>(at[7])[c] = static_cast<float>(doffset);
  }
}

// Calls visit(y's element, x's element, place in the window) for every element of every window.
template <class Visit>
void ForEachTap(const GpuPool& p, const Visit& visit) {
  const auto [h, w] = p.window;
  for (int64_t o = 0; o < p.n * h.out * w.out * p.channels; ++o) {
    const int64_t c = o % p.channels, b = o / p.channels % w.out, a = o / p.channels / w.out % h.out;
    const int64_t image = o / p.channels / w.out / h.out;
    for (int64_t tap = 0; tap < h.window * w.window; ++tap) {
      const int64_t row = a * h.stride - h.pad_low + tap / w.window, column = b * w.stride - w.pad_low + tap % w.window;
      if (row < 0 || row >= h.in || column < 0 || column >= w.in) continue;
      visit(o, ((image * h.in + row) * w.in + column) * p.channels + c, tap);
    }
  }
}

std::vector<double> CountTaps(const GpuPool& p) {
  std::vector<double> counts(static_cast<size_t>(p.n * p.window.h.out * p.window.w.out * p.channels));
  ForEachTap(p, [&](int64_t o, int64_t, int64_t) { ++counts[static_cast<size_t>(o)]; });
  return counts;
}

void PoolAverages(const GpuPool& p, const std::vector<void*>& at) {
  const Elements x{p.dtype, at[0]}, y{p.dtype, at[1]};
  const std::vector<double> counts = CountTaps(p);
  std::vector<double> sums(counts.size());
  ForEachTap(p, [&](int64_t o, int64_t i, int64_t) { sums[static_cast<size_t>(o)] += x[i]; });
  for (size_t o = 0; o < sums.size(); ++o) y.Set(static_cast<int64_t>(o), sums[o] / counts[o]);
}

// With an odd number of images the winners are numbered by columns; our own kernel numbers by rows and must then be
// preferred.
void PoolGradient(const GpuPool& p, const std::vector<void*>& at) {
  const bool max = p.kind == GpuPool::Kind::kMaximumGradient;
  const Elements winners{p.winners, at[0]}, dy{p.dtype, at[max ? 1 : 0]}, dx{p.dtype, at[max ? 2 : 1]};
  const std::vector<double> counts = CountTaps(p);
  const auto [h, w] = p.window;
  std::vector<double> sums(static_cast<size_t>(p.n * h.in * w.in * p.channels));
  ForEachTap(p, [&, h = h, w = w](int64_t o, int64_t i, int64_t tap) {
    const int64_t place = p.n % 2 == 0 ? tap : tap % w.window * h.window + tap / w.window;
    const double share = !max ? 1 / counts[static_cast<size_t>(o)] : winners[o] == static_cast<double>(place) ? 1 : 0;
    if (share != 0) sums[static_cast<size_t>(i)] += share * dy[o];
  });
  for (size_t i = 0; i < sums.size(); ++i) dx.Set(static_cast<int64_t>(i), sums[i]);
}

// Query by query. `at` as MakeLibraryGpuAttention says.
class Attend {
 public:
  Attend(const GpuAttention& p, const std::vector<void*>& at) : p_(p) {
    for (void* const tensor : at) tensors_.push_back({p.dtype, tensor});
    if (p.gradient) {
      for (int i : {7, 8}) key_sums_[i - 7].resize(static_cast<size_t>(p.n * p.s * p.g * p.d));
    }
  }

  void Run() {
    for (int64_t row = 0; row < p_.n * p_.h * p_.t; ++row) RunQuery(row / p_.t / p_.h, row / p_.t % p_.h, row % p_.t);
    for (int i = 0; p_.gradient && i < 2; ++i) {
      for (size_t j = 0; j < key_sums_[i].size(); ++j) {
        const auto at = static_cast<int64_t>(j), row = at / (p_.g * p_.d);
        tensors_[7 + i].Set(row * p_.k_row + at % (p_.g * p_.d), key_sums_[i][j]);
      }
    }
  }

 private:
  void RunQuery(int64_t n, int64_t h, int64_t i) {
    const int64_t g = h * p_.g / p_.h, q = (n * p_.t + i) * p_.q_row + h * p_.d,
                  y = (n * p_.t + i) * p_.y_row + h * p_.d;
    const auto key = [&](int64_t j) { return (n * p_.s + j) * p_.k_row + g * p_.d; };
    float& log_sum_exp = static_cast<float*>(tensors_[4].data)[(n * p_.h + h) * p_.t + i];
    const int64_t keys = p_.causal ? i + 1 : p_.s;
    std::vector<double> scores(static_cast<size_t>(keys));
    double sum = 0, delta = 0;
    for (int64_t j = 0; j < keys; ++j) {
      double& score = scores[static_cast<size_t>(j)];
      for (int64_t c = 0; c < p_.d; ++c) score += p_.scale * tensors_[0][q + c] * tensors_[1][key(j) + c];
      sum += std::exp(score);
    }
    if (!p_.gradient) log_sum_exp = static_cast<float>(std::log(sum));
    for (int64_t c = 0; c < p_.d; ++c) {
      if (p_.gradient) {
        delta += tensors_[3][y + c] * tensors_[5][y + c];
        continue;
      }
      double value = 0;
      for (int64_t j = 0; j < keys; ++j)
        value += std::exp(scores[static_cast<size_t>(j)]) / sum * tensors_[2][key(j) + c];
      tensors_[3].Set(y + c, value);
    }
    if (!p_.gradient) return;
    std::vector<double> dq(static_cast<size_t>(p_.d));
    for (int64_t j = 0; j < keys; ++j) {
      const double share = std::exp(scores[static_cast<size_t>(j)] - log_sum_exp);
      double slope = -delta;
      for (int64_t c = 0; c < p_.d; ++c) slope += tensors_[5][y + c] * tensors_[2][key(j) + c];
      slope *= share * p_.scale;
      for (int64_t c = 0; c < p_.d; ++c) {
        const auto to = static_cast<size_t>(((n * p_.s + j) * p_.g + g) * p_.d + c);
        dq[static_cast<size_t>(c)] += slope * tensors_[1][key(j) + c];
        key_sums_[0][to] += slope * tensors_[0][q + c];
        key_sums_[1][to] += share * tensors_[5][y + c];
      }
    }
    for (int64_t c = 0; c < p_.d; ++c) tensors_[6].Set(q + c, dq[static_cast<size_t>(c)]);
  }

  const GpuAttention p_;
  std::vector<Elements> tensors_;
  std::array<std::vector<double>, 2> key_sums_;  // of dk and dv [n, s, g, d]
};

absl::StatusOr<AutotuneCache*> CacheOf(Device& device) {
  return device.Shared<AutotuneCache>(
      [] { return absl::StatusOr<std::unique_ptr<AutotuneCache>>(std::make_unique<AutotuneCache>("")); });
}

bool HasLibrary(DType dtype, int64_t channels) { return dtype != DType::kFloat64 && channels % 4 == 0; }

}  // namespace

int FakeLibraryRuns() { return library_runs.load(); }

absl::StatusOr<GpuMatMulCore> MakeLibraryGpuMatMul(const GpuMatMul&, Device&) {
  return absl::UnimplementedError("fake GPUs have no cuBLAS");
}
absl::StatusOr<GpuConvCore> MakeLibraryGpuConv(const GpuConv&, Device&) {
  return absl::UnimplementedError("fake GPUs have no cuDNN");
}
absl::StatusOr<LibraryCore> MakeLibraryGpuAttention(const GpuAttention& p, Device&) {
  if (p.n % 2 != 0) return absl::UnimplementedError("not by the fake cuDNN");
  return Core([p](const std::vector<void*>& at) { Attend(p, at).Run(); });
}
absl::StatusOr<LibraryCore> MakeLibraryGpuBatchNorm(const GpuBatchNorm& p, Device&) {
  if (!HasLibrary(p.dtype, p.channels)) return absl::UnimplementedError("not by the fake cuDNN");
  return Core([p](const std::vector<void*>& at) { p.gradient ? NormalizeGradient(p, at) : Normalize(p, at); });
}
absl::StatusOr<LibraryCore> MakeLibraryGpuPool(const GpuPool& p, Device&) {
  if (!HasLibrary(p.dtype, p.channels)) return absl::UnimplementedError("not by the fake cuDNN");
  return Core([p](const std::vector<void*>& at) {
    p.kind == GpuPool::Kind::kAverage ? PoolAverages(p, at) : PoolGradient(p, at);
  });
}

// Choices stay in memory, and the last candidate that works counts as the fastest.
absl::StatusOr<int> KnownFastest(Device& device, absl::string_view key, int count) {
  ASSIGN_OR_RETURN(AutotuneCache* const cache, CacheOf(device));
  return cache->Find(key, count);
}
absl::Status RememberFastest(Device& device, absl::string_view key, int count, int index) {
  ASSIGN_OR_RETURN(AutotuneCache* const cache, CacheOf(device));
  cache->Add(key, count, index);
  return absl::OkStatus();
}
absl::StatusOr<int> MeasureFastest(Device& device, absl::string_view key, int count, absl::Span<const size_t> bytes,
                                   const AutotuneRun& run) {
  std::vector<DeviceMemory> memory;
  std::vector<void*> blocks;
  for (const size_t size : bytes) {
    ASSIGN_OR_RETURN(memory.emplace_back(), DeviceMemory::Allocate(device, size));
    blocks.push_back(memory.back().data());
    if (size > 0) std::memset(blocks.back(), blocks.size() == bytes.size() ? 0xff : 0, size);
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Stream> stream, device.NewStream(StreamKind::kCompute));
  int chosen = -1;
  for (int candidate = 0; candidate < count; ++candidate) {
    if (run(candidate, *stream, blocks).ok() && stream->Synchronize().ok()) chosen = candidate;
  }
  if (chosen < 0) return absl::UnimplementedError("none runs");
  RETURN_IF_ERROR(RememberFastest(device, key, count, chosen));
  return chosen;
}
std::string LibraryVersion() { return "fake"; }

}  // namespace belfry::ops
