// The kernels that a compiler would make of a step, by its rules of fusion: a bound for ours, and a peer.
#pragma once

#include <vector>

#include "framework/compiler/plan.h"
#include "trainers/prediction/gpu_cost.h"

namespace belfry {

struct FusionRules {
  bool elementwise = true;  // element-wise ops join the kernel that makes the last of their operands
  bool reductions = true;   // also that of a normalisation, loss, pooling or sum, which reads what they would write
  bool products = false;    // also that of a product, a convolution or attention
};
// Each op by itself, as PyTorch runs a step without compiling.
inline constexpr FusionRules kNoFusion = {false, false, false};
// PyTorch's inductor, as it is by default (Ansel et al., "PyTorch 2: Faster machine learning through dynamic Python
// bytecode transformation and graph compilation", ASPLOS 2024, section 4; torch/_inductor/scheduler.py): element-wise
// ops and reductions are fused with each other; products, convolutions and attention are kernels of libraries, with
// which nothing is fused unless max_autotune writes them as templates.
inline constexpr FusionRules kTorchCompile = {true, true, false};
// Every chain of element-wise ops is part of a neighbour.
inline constexpr FusionRules kPerfectFusion = {true, true, true};

// The kernels of `device` for a plan, such as one without fusion (SessionOptions::fuse = false), by these rules. A node
// joins the kernel that makes the last of its operands if the rules let it, and runs there; so no kernel waits for
// itself. A tensor that only one kernel sees is not stored. Updates of variables by one op share launches, 48 variables
// each, whatever the rules: all systems do that.
std::vector<Demand> FuseStep(const Plan& plan, int device, const FusionRules& rules);

// Those of perfect fusion of `unfused`, of perfect fusion of `plan`, the same step with fusion, or of `plan` as it is,
// whichever takes the fewest bytes: rewrites compute some values twice instead of storing them, and a reduction that
// computes what it reads several times does not always gain.
std::vector<Demand> FusePerfectly(const Plan& plan, const Plan& unfused, int device);

// The sum of demands, and their seconds on a card.
struct StepDemand {
  double launches = 0, bytes = 0, flops = 0, seconds = 0;
};
StepDemand SumOf(const std::vector<Demand>& demands, const GpuCard& card);

}  // namespace belfry
