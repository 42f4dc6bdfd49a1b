// The order of CIFAR-10's bytes.
#pragma once

#include <string>

#include "framework/base/tensor.h"

namespace belfry::data {

// The bytes of an image as the planes of its channels, as CIFAR-10's files hold them.
inline std::string Planes(const Tensor& image) {
  const int64_t pixels = image.shape()[0] * image.shape()[1], channels = image.shape()[2];
  std::string planes(image.bytes(), '\0');
  for (int64_t i = 0; i < pixels * channels; ++i) {
    planes[i % channels * pixels + i / channels] = static_cast<char>(image.data<uint8_t>()[i]);
  }
  return planes;
}

}  // namespace belfry::data
