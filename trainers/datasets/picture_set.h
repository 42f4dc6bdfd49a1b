// A generated data set of JPEG files, for trying out pictures without any.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace belfry::data {

struct PictureSetOptions {
  uint64_t seed = 1;
  int64_t training = 1500, validation = 300;  // pictures
};

// Writes the set to `folder`, unless it is there: the shapes of textures.h, from 48 to 127 pixels wide and high, in
// train/<class>/<number>.jpg and val/<class>/<number>.jpg. It is written beside `folder` and renamed into place, by any
// number of processes at once. Errors: those of writing files.
absl::Status WritePictureSet(const std::string& folder, const PictureSetOptions& options = {});

}  // namespace belfry::data
