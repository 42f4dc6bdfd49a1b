// Problem files, as written by `training --write_problem`: initial values and examples.
#pragma once

#include <torch/torch.h>

#include <map>
#include <string>

namespace peer {

using Tensors = std::map<std::string, torch::Tensor>;

// The tensors of a safetensors file by name, in their original layout: images [N, H, W, C], weights [H, W, in, out] and
// [in, out]. Throws std::runtime_error.
Tensors ReadProblem(const std::string& path);

// Converts to libtorch's layouts: images to [N, C, H, W] channels-last, weights of convolutions to [out, in, H, W]
// channels-last, dense weights to [out, in].
torch::Tensor ToImages(const torch::Tensor& tensor);
torch::Tensor ToVariable(const torch::Tensor& tensor);

}  // namespace peer
