// What `training --write_problem` wrote: initial values and examples.
#pragma once

#include <torch/torch.h>

#include <map>
#include <string>

namespace peer {

using Tensors = std::map<std::string, torch::Tensor>;

// The tensors of a safetensors file, by name, as they are there: images [N, H, W, C], weights [H, W, in, out] and
// [in, out]. Throws std::runtime_error.
Tensors ReadProblem(const std::string& path);

// As libtorch takes them: images [N, C, H, W] channels-last, weights of convolutions [out, in, H, W] channels-last,
// dense ones [out, in].
torch::Tensor ToImages(const torch::Tensor& tensor);
torch::Tensor ToVariable(const torch::Tensor& tensor);

}  // namespace peer
