// The models of ../networks.py.
#pragma once

#include <string>

#include "problem.h"

namespace peer {

// Of a batch, weight decay included; `p` are the variables by Belfry's names. Updates moving averages.
torch::Tensor Loss(const std::string& model, Tensors& p, const torch::Tensor& inputs, const torch::Tensor& labels);

// Whether a tensor of the problem is a variable that gradients update, or a moving average.
bool IsTrained(const std::string& name);
bool IsStatistic(const std::string& name);

}  // namespace peer
