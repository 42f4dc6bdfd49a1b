#include <cstdio>
#include <string>

#include "framework/base/shape.h"
#include "framework/base/tensor.h"

int main() {
  const auto tensor = belfry::Tensor::Of<float>({1, 2, 3, 4, 5, 6}, {3, 2});
  const auto row = belfry::BroadcastShapes(tensor.shape(), belfry::Shape{1, 2});
  std::printf("%s\n", tensor.ToString().c_str());
  return row.ok() && *row == tensor.shape() && tensor.ToDoubles().back() == 6 ? 0 : 1;
}
