// Arrays in NumPy's .npy files, formats 1.0 to 3.0.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/base/tensor.h"
#include "framework/data/dataset.h"

namespace belfry::data {

// The array in the file `path`: float16, float32, float64, int32, int64, uint8 or bool, little-endian, in C order.
// Errors name the file and, in its header, the byte. DataLoss: the file is damaged or cut short, or a bool is neither 0
// nor 1. Unimplemented: another element type (structures, objects and text, too), big-endian elements, a
// Fortran-ordered matrix or another version of the format. ResourceExhausted: out of memory. Otherwise the errors of
// io::InputFile.
absl::StatusOr<Tensor> ReadNpy(const std::string& path);

// Writes the bytes that numpy.save writes for the same array, atomically, as io::WriteFile does. Unimplemented for
// bfloat16, which NumPy does not have.
absl::Status WriteNpy(const std::string& path, const Tensor& tensor);

// A field of all examples, [N, ...], in a file.
struct NpyField {
  std::string name = {};
  std::string path = {};
  int64_t categories = 0;                        // see Field
  std::vector<std::string> category_names = {};  // likewise
};

// OpenNpy({{"image", "x.npy"}, {"label", "y.npy", 10}}). Examples are read when they are asked for, so the files may be
// larger than memory; they must not be overwritten meanwhile. Errors of opening: those of ReadNpy for the files'
// headers; InvalidArgument for no field, fields with other numbers of examples, or what CheckFields refuses. Reading
// an element outside [0, categories), or a bool that is neither 0 nor 1, is DataLoss.
absl::StatusOr<std::unique_ptr<Dataset>> OpenNpy(std::vector<NpyField> fields);

}  // namespace belfry::data
