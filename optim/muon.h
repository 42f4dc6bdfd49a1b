// Muon: momentum, orthogonalised, for matrices.
#pragma once

#include "optim/optimizer.h"

namespace belfry::optim {

struct MuonOptions {
  Schedule learning_rate = 0.02;
  double momentum = 0.95;
  bool use_nesterov = true;
  double weight_decay = 0;     // decoupled: v -= lr weight_decay v
  VariableFilter decays = {};  // the variables that weight decay applies to
  int iterations = 5;          // of Newton-Schulz
  // The factor on X is 0.2 sqrt(max(rows, columns)) instead, which gives updates the size of AdamW's, for the same rate
  // and weight decay (Liu et al., "Muon is scalable for LLM training", 2025).
  bool match_adamw = false;
  // Scales the variable to the norm sqrt(columns) before each update, as for filters whose size batch normalisation
  // takes out (Jordan, airbench94_muon, 2024). One of zeros is not scaled.
  bool normalise = false;
};

// a = momentum a + g; u = g + momentum a, or a without Nesterov's look-ahead;
// v -= lr (sqrt(max(1, columns / rows)) X + weight_decay v)
// (Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024). X is u with its singular values
// near 1, by Newton-Schulz iterations X = 3.4445 X - 4.7750 X X' X + 2.0315 X X' X X' X from u / |u|. Of a variable
// [..., in, out] all axes but the last are the rows. Products are computed in float32, or float64 for a variable of
// that.
//
// Hidden layers only: the first, the last and non-matrices take AdamW in the paper's experiments. Check
// refuses variables of rank 0 and 1:
//
//   optim::ParameterGroups({{optim::NameMatches("block*", optim::IsWeight), optim::Muon()}}, optim::AdamW());
//
// Slot "<variable>/Muon": a. It needs whole variables, so its state cannot be divided among towers; each computes all
// products.
class Muon : public Optimizer {
 public:
  explicit Muon(const MuonOptions& options = {});
  Output Apply(OpScope scope, const Variable& variable, const ops::Gradient& gradient) const override;
  absl::Status Check(absl::Span<const Variable> variables) const override;

 private:
  MuonOptions options_;
};

}  // namespace belfry::optim
