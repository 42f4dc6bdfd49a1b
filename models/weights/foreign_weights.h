// Weights of other frameworks' networks, under our names and in our layouts.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/io/safetensors.h"

namespace belfry::models {

// The way in which a tensor is stored elsewhere.
enum class WeightLayout {
  kSame,
  kOutIn,   // a matrix [out, in]; ours are [in, out]
  kFilter,  // of a convolution, [K, C / groups, R, S]; ours are [R, S, C / groups, K]
};

// Tensors with names like `theirs` become `ours`. In `theirs`, # stands for a decimal number; in `ours`, {0} is the
// first of these, {1} the second, and {1+1} the second plus one.
struct WeightRule {
  absl::string_view theirs, ours;
  WeightLayout layout = WeightLayout::kSame;
  // Ours is joined, along its last axis, of `parts` tensors of theirs, of which this is number `part`.
  int part = 0, parts = 1;
};

// The rules for a network as another project stores it.
struct WeightRules {
  absl::string_view network;  // for people: "ResNet of torchvision"
  // A file is such a network's if it has this tensor. Before all names there may be `prefix`.
  absl::string_view has, prefix;
  absl::Span<const WeightRule> rules;
};

// The known networks: torchvision's ResNets, for DeepResNet, and Hugging Face's GPT-2, for Transformer, and
// BERT, for TextEncoder.
absl::Span<const WeightRules> KnownWeights();
const WeightRules& ResNetWeights();  // resnet_weights.cc
const WeightRules& Gpt2Weights();    // gpt2_weights.cc
const WeightRules& BertWeights();    // bert_weights.cc

// Returns the tensors of a known network that a rule names, renamed and in our layout, and sets `network` to its name.
// Returns the tensors of any other file, such as one of ours, unchanged, and sets `network` to "". InvalidArgument: a
// tensor's rank is not that of its rule, or the parts of a joined one are not all there, or do not fit.
// ResourceExhausted: out of memory. Thread-safe.
absl::StatusOr<std::vector<io::NamedTensor>> OurWeights(std::vector<io::NamedTensor> tensors, std::string& network);

// The tensors of a safetensors file or, if `path` ends in .json, of all files that an index names, which has
// {"weight_map": {"<tensor>": "<file>", ...}} with files beside it. Errors: those of io::ReadSafetensors;
// InvalidArgument: the index is none, or a file lacks a tensor.
absl::StatusOr<std::vector<io::NamedTensor>> ReadWeightFiles(const std::string& path);

}  // namespace belfry::models
