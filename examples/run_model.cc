// Runs a saved model, which `cifar10 --export=FILE` and SaveModel write: prints its inputs and outputs, and what it
// computes for one example of zeros.
//
//   run_model cifar.safetensors
#include <cstdio>
#include <string>
#include <vector>

#include "belfry.h"

int main(int argc, char** argv) {
  using namespace belfry;
  if (argc != 2) {
    std::fprintf(stderr, "usage: run_model FILE\n");
    return 2;
  }
  const DeviceSet devices = DeviceSet::Open("cpu:1").value();
  const auto model = SavedModel::Open(argv[1], BuiltinOps(), devices);
  if (!model.ok()) {
    std::fprintf(stderr, "run_model: %s\n", std::string(model.status().message()).c_str());
    return 1;
  }
  std::vector<Tensor> values;
  for (const auto& [name, input] : model->inputs()) {
    std::printf("input   %s: %s\n", name.c_str(), input.shape().ToString().c_str());
    Shape one = input.shape();  // open extents: a batch of one example, a sequence of one token
    for (int i = 0; i < one.rank(); ++i) {
      if (one[i] == Shape::kUnknown) one = one.Remove(i).Insert(i, 1);
    }
    values.push_back(Tensor::Zeros(input.dtype(), one));
  }
  const auto outputs = model->Run(values);
  if (!outputs.ok()) {
    std::fprintf(stderr, "run_model: %s\n", std::string(outputs.status().message()).c_str());
    return 1;
  }
  for (size_t i = 0; i < outputs->size(); ++i) {
    std::printf("output  %s: %s\n", model->outputs()[i].name.c_str(), (*outputs)[i].ToString(10).c_str());
  }
  return 0;
}
