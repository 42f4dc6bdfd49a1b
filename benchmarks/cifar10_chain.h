// One training step of the CIFAR-10 tutorial network as a chain of bare oneDNN primitives: the code that one would
// write by hand for this one network, and so a measure of a framework's overhead.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace belfry::benchmarks {

// The network: 5x5 convolution to 64 + bias + ReLU, 3x3/2 maximum, LRN, 5x5 convolution to 64 + bias + ReLU, LRN, 3x3/2
// maximum, dense 384 + ReLU, dense 192 + ReLU, dense 10, mean softmax cross-entropy + 0.004 |w|^2 / 2 over the weights
// of the two hidden dense layers; one step of gradient descent. float32, NHWC. Convolution weights stay in the
// library's layout, dense weights are [in, out]; every buffer is allocated once.
//
// Built for the calling thread's number of OpenMP threads. Not thread-safe. Throws dnnl::error.
class Cifar10Chain {
 public:
  static constexpr int64_t kSide = 24, kChannels = 3, kClasses = 10;

  Cifar10Chain(int64_t batch, uint64_t seed);
  ~Cifar10Chain();

  // images [batch, 24, 24, 3], labels [batch] in 0..9. Returns the loss before the update.
  float Step(const float* images, const int32_t* labels, float learning_rate);

  struct Part {
    std::string name;            // "conv2 backward weights"
    std::string implementation;  // the library's name; "loop" for our own loops
    double flops = 0;            // multiplications and additions, including those with padding; 0 if negligible
    // The shortest of the timed steps.
    double milliseconds = std::numeric_limits<double>::infinity();
  };
  // Runs `steps` steps and times each part separately.
  std::vector<Part> Profile(const float* images, const int32_t* labels, float learning_rate, int steps);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace belfry::benchmarks
