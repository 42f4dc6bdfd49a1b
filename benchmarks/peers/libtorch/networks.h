// The models of ../networks.py in libtorch.
#pragma once

#include <string>

#include "problem.h"

namespace peer {

// The loss of a batch, including weight decay. `p` holds the variables by Belfry's names; their moving averages are
// updated.
torch::Tensor Loss(const std::string& model, Tensors& p, const torch::Tensor& inputs, const torch::Tensor& labels);

// True if a tensor of the problem is a variable that gradients update, or a moving average, respectively.
bool IsTrained(const std::string& name);
bool IsStatistic(const std::string& name);

}  // namespace peer
