// Datasets: random access to labelled examples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/base/dtype.h"
#include "framework/base/shape.h"

namespace belfry::data {

// Order of an image's bytes: kPlanes is C x H x W (CIFAR-10 files), kInterleaved is H x W x C.
enum class PixelLayout : uint8_t { kPlanes, kInterleaved };

// The common shape and types of a dataset's examples.
struct ExampleSpec {
  // Shape of one example's input: [H, W, C] for an image, whatever its layout; otherwise any shape, such as [F] for F
  // features.
  Shape shape;
  // kUInt8: an image with pixels 0..255. kFloat32: features, row-major.
  DType dtype = DType::kFloat32;
  PixelLayout layout = PixelLayout::kPlanes;  // used for images only
  // kInt32: a class in [0, classes). kFloat32: a number to predict.
  DType label_dtype = DType::kFloat32;
  int32_t classes = 0;                   // 0 unless label_dtype is kInt32
  std::vector<std::string> class_names;  // empty, or one for each class

  bool is_image() const { return dtype == DType::kUInt8; }
  size_t input_bytes() const { return static_cast<size_t>(shape.elements()) * SizeOf(dtype); }
};

// One example. `input` has spec().input_bytes() bytes and points into the dataset's memory, or into the scratch memory
// passed to Read.
struct Example {
  const void* input = nullptr;
  int32_t label = 0;  // if label_dtype is kInt32
  float target = 0;   // if label_dtype is kFloat32
};

// A set of examples with random access. Immutable, so any number of threads may read at once.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual int64_t size() const = 0;
  virtual const ExampleSpec& spec() const = 0;

  // Reads example `index`. A dataset that does not hold its examples in memory writes the input to `scratch`, which has
  // spec().input_bytes() bytes. Errors name the file and the record. REQUIRES: 0 <= index < size().
  virtual absl::Status Read(int64_t index, absl::Span<std::byte> scratch, Example& example) const = 0;
};

}  // namespace belfry::data
