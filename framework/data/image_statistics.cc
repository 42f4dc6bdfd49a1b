#include "framework/data/image_statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace belfry::data {
namespace {

// Calls `take` with the bytes of the field's image in each of the first examples.
absl::Status ForEachImage(const Dataset& dataset, size_t index, int64_t examples,
                          absl::FunctionRef<void(const uint8_t*)> take) {
  const Field& field = dataset.fields()[index];
  if (!HoldsImages(field) || dataset.size() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("image statistics need at least one image, uint8 [H,W,C]; there are ", dataset.size(),
                     " examples of ", field.ToString()));
  }
  std::vector<Tensor> tensors;
  std::vector<std::byte*> places;
  for (const Field& each : dataset.fields()) {
    tensors.emplace_back(each.dtype, each.shape);
    places.push_back(static_cast<std::byte*>(tensors.back().raw()));
  }
  for (int64_t i = 0; i < std::min(examples, dataset.size()); ++i) {
    RETURN_IF_ERROR(ReadInto(dataset, i, Example(places)));
    take(tensors[index].data<uint8_t>());
  }
  return absl::OkStatus();
}

// A symmetric matrix [n, n], row by row, and its eigenvectors, one a row, with the eigenvalues.
struct Eigenpairs {
  std::vector<double> values, vectors;
};

// Jacobi's method: rotations that each clear one pair off the diagonal, in sweeps over all pairs, until none is left
// (Golub and Van Loan, "Matrix computations", §8.5).
Eigenpairs Diagonalise(std::vector<double> a, size_t n) {
  std::vector<double> v(n * n, 0);
  for (size_t i = 0; i < n; ++i) v[i * n + i] = 1;
  constexpr int kMaxSweeps = 60;
  for (int sweep = 0; sweep < kMaxSweeps; ++sweep) {
    double off = 0, diagonal = 0;
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) (i == j ? diagonal : off) += a[i * n + j] * a[i * n + j];
    }
    if (off <= 1e-30 * diagonal) break;
    for (size_t p = 0; p < n; ++p) {
      for (size_t q = p + 1; q < n; ++q) {
        if (a[p * n + q] == 0) continue;
        const double theta = (a[q * n + q] - a[p * n + p]) / (2 * a[p * n + q]);
        const double t = (theta >= 0 ? 1 : -1) / (std::abs(theta) + std::hypot(theta, 1));
        const double c = 1 / std::hypot(t, 1), s = t * c;
        for (size_t k = 0; k < n; ++k) {  // columns
          const double kp = a[k * n + p], kq = a[k * n + q];
          a[k * n + p] = c * kp - s * kq;
          a[k * n + q] = s * kp + c * kq;
        }
        for (size_t k = 0; k < n; ++k) {  // rows, of the matrix and of the eigenvectors
          const double pk = a[p * n + k], qk = a[q * n + k], vp = v[p * n + k], vq = v[q * n + k];
          a[p * n + k] = c * pk - s * qk;
          a[q * n + k] = s * pk + c * qk;
          v[p * n + k] = c * vp - s * vq;
          v[q * n + k] = s * vp + c * vq;
        }
      }
    }
  }
  Eigenpairs eigen{.vectors = std::move(v)};
  for (size_t i = 0; i < n; ++i) eigen.values.push_back(a[i * n + i]);
  return eigen;
}

// Adds the products of all pairs of values of each patch of an image [H, W, C] to `moments`; returns the patches.
int64_t AddPatches(const std::vector<float>& image, const Shape& shape, int64_t edge, std::vector<double>& moments) {
  const int64_t channels = shape[2], n = edge * edge * channels;
  std::vector<double> patch(n);
  for (int64_t y = 0; y + edge <= shape[0]; ++y) {
    for (int64_t x = 0; x + edge <= shape[1]; ++x) {
      for (int64_t row = 0; row < edge; ++row) {
        const float* const from = image.data() + ((y + row) * shape[1] + x) * channels;
        std::copy_n(from, edge * channels, patch.begin() + row * edge * channels);
      }
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = i; j < n; ++j) moments[i * n + j] += patch[i] * patch[j];
      }
    }
  }
  return (shape[0] - edge + 1) * (shape[1] - edge + 1);
}

}  // namespace

absl::StatusOr<ChannelStatistics> ComputeChannelStatistics(const Dataset& dataset, const std::string& name) {
  ASSIGN_OR_RETURN(const size_t index, FindField(dataset.fields(), name));
  const Shape& shape = dataset.fields()[index].shape;
  const int64_t channels = shape.rank() == 3 ? shape[2] : 0, pixels = shape.rank() == 3 ? shape[0] * shape[1] : 0;
  ChannelSums sums(shape.rank() == 3 ? shape[1] * channels : 0, channels);
  RETURN_IF_ERROR(
      ForEachImage(dataset, index, dataset.size(), [&](const uint8_t* image) { sums.Add(image, shape[0]); }));
  ChannelStatistics statistics;
  const double n = static_cast<double>(pixels) * static_cast<double>(dataset.size());
  for (int64_t c = 0; c < channels; ++c) {
    const double mean = static_cast<double>(sums.values(c)) / n;
    statistics.mean.push_back(static_cast<float>(mean));
    statistics.deviation.push_back(
        static_cast<float>(std::sqrt(std::max(0.0, static_cast<double>(sums.squares(c)) / n - mean * mean))));
  }
  return statistics;
}

absl::StatusOr<std::vector<float>> ComputeMeanImage(const Dataset& dataset, const std::string& name) {
  ASSIGN_OR_RETURN(const size_t index, FindField(dataset.fields(), name));
  std::vector<uint64_t> sums(dataset.fields()[index].shape.elements());
  RETURN_IF_ERROR(ForEachImage(dataset, index, dataset.size(), [&](const uint8_t* image) {
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += image[i];
  }));
  std::vector<float> means;
  for (const uint64_t sum : sums) {
    means.push_back(static_cast<float>(static_cast<double>(sum) / static_cast<double>(dataset.size())));
  }
  return means;
}

absl::StatusOr<Tensor> WhiteningFilters(const Dataset& dataset, const ImagePolicy& policy, const std::string& name,
                                        const WhiteningOptions& options) {
  ASSIGN_OR_RETURN(const size_t index, FindField(dataset.fields(), name));
  ASSIGN_OR_RETURN(Augmenter augmenter, Augmenter::Create(dataset.fields()[index], policy, /*seed=*/0));
  const Shape& shape = augmenter.output_shape();
  constexpr int64_t kMaxValues = 256;
  const int64_t edge = options.edge, n = edge * edge * shape[2];
  if (edge < 1 || edge > std::min(shape[0], shape[1]) || n < 1 || n > kMaxValues || options.examples < 1) {
    return absl::InvalidArgumentError(absl::StrCat("patches of ", edge, "x", edge, " of ", options.examples,
                                                   " images of ", shape.ToString(), "; expected 1 to ", kMaxValues,
                                                   " values of the image, and at least one image"));
  }
  std::vector<double> moments(n * n, 0);
  std::vector<float> image(shape.elements());
  int64_t patches = 0;
  RETURN_IF_ERROR(ForEachImage(dataset, index, options.examples, [&](const uint8_t* bytes) {
    augmenter.Apply(bytes, /*epoch=*/0, /*index=*/0, image.data());
    patches += AddPatches(image, shape, edge, moments);
  }));
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = i; j < n; ++j) moments[j * n + i] = moments[i * n + j] /= static_cast<double>(patches);
  }
  const Eigenpairs eigen = Diagonalise(moments, n);
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return eigen.values[a] > eigen.values[b]; });
  Tensor filters(DType::kFloat32, {edge, edge, shape[2], 2 * n});
  for (int64_t k = 0; k < n; ++k) {
    const double* const vector = eigen.vectors.data() + order[k] * n;
    const double largest =
        *std::max_element(vector, vector + n, [](double a, double b) { return std::abs(a) < std::abs(b); });
    const double root = std::sqrt(std::max(0.0, eigen.values[order[k]]) + options.epsilon);
    for (int64_t i = 0; i < n; ++i) {
      const double value = vector[i] / (largest < 0 ? -root : root);
      filters.data<float>()[i * 2 * n + k] = static_cast<float>(value);
      filters.data<float>()[i * 2 * n + n + k] = static_cast<float>(-value);
    }
  }
  return filters;
}

}  // namespace belfry::data
