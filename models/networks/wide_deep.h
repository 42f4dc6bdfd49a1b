// Wide and deep models of tables (Cheng et al., "Wide & Deep Learning for Recommender Systems", 2016).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/dtype.h"
#include "framework/graph/scope.h"

namespace belfry::models {

// A column of categories.
struct CategoryInput {
  std::string name = {};   // of any characters; the variables are called after it, see NodeName
  Output ids = {};         // [N], int32 or int64, in [0, categories)
  int64_t categories = 0;  // the size of its vocabulary: data::Field::categories
  int64_t width = 0;       // of its embedding; 0: WideDeepOptions::width
};

// The columns of a table: at least one.
struct TableInput {
  std::optional<Output> numbers = {};  // [N, F] with known F, in WideDeepOptions::dtype; best of mean 0 and deviation 1
  std::vector<CategoryInput> categories = {};
};

struct WideDeepOptions {
  int64_t outputs = 1;                             // logits: the number of classes, or 1 to predict a number
  bool wide = true;                                // false: the deep part alone
  int64_t width = 32;                              // of the embedding of a category
  std::vector<int64_t> hidden = {1024, 512, 256};  // widths of the hidden layers
  double dropout = 0;                              // rate after each hidden layer, in training
  bool training = true;
  DType dtype = DType::kFloat32;  // float32 or float64
};

// The sum of two parts, [N, outputs]. The wide one is linear: the product of the numbers with weights, and a row of
// weights for the id of each category. The deep one is a perceptron with ReLU on the concatenation of an embedding
// [width] of each category and the numbers. The gradients of the tables are sparse: a step updates the rows whose ids
// it has.
//
// The wide weights start at 0, embeddings normally distributed with standard deviation 1 / sqrt(width), except the row
// of data::kUnknownCategory, which starts at 0: a category that no training example had adds nothing. Variables,
// without those of a part that is not there: wide/numbers/weights [F, outputs], wide/<name>/table [categories,
// outputs]; deep/<name>/table [categories, width], deep/hidden<i>/{weights,biases}, i from 1, and
// deep/output/{weights,biases}, whose bias serves the whole.
Output WideDeep(OpScope scope, const TableInput& table, const WideDeepOptions& options = {});

}  // namespace belfry::models
