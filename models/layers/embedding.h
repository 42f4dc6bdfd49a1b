// An embedding layer: a table with a row for each word, category or position. The rules of layers.h hold.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "framework/base/dtype.h"
#include "framework/graph/scope.h"
#include "framework/graph/variable.h"

namespace belfry::models {

struct EmbeddingOptions {
  Initializer table = NormalInitializer(0.02);  // as in GPT-2
  DType dtype = DType::kFloat32;                // of the result; the table is float64 if this is, otherwise float32
};
// The rows of a table at `ids`, int32 or int64 of any shape [..] and in [0, rows): gives [.., width]. The variable
// "table" is [rows, width]. On the CPU an id out of range fails the step; on a GPU it gives zeros.
Output Embedding(OpScope scope, absl::string_view name, Output ids, int64_t rows, int64_t width,
                 const EmbeddingOptions& options = {});

// The two parts of Embedding, for a table that has another use too, such as the weights of the logits: its variable,
// which is invalid after an error, and the rows of such a variable, in `dtype`.
Variable EmbeddingTable(OpScope scope, absl::string_view name, int64_t rows, int64_t width,
                        const EmbeddingOptions& options = {});
Output Embed(OpScope scope, const Variable& table, Output ids, DType dtype = DType::kFloat32);

}  // namespace belfry::models
