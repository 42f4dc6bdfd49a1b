// The input of a model function.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/base/source_location.h"
#include "framework/data/batch_source.h"
#include "framework/data/field.h"
#include "framework/graph/scope.h"
#include "framework/runtime/session.h"

namespace belfry::models {

// A name with the source line that asks for it.
struct FieldName {
  FieldName(const char* field, SourceLocation where = SourceLocation::Current())  // NOLINT: converts on purpose
      : name(field), location(where) {}
  FieldName(absl::string_view field, SourceLocation where = SourceLocation::Current())  // NOLINT: likewise
      : name(field), location(where) {}
  FieldName(const std::string& field, SourceLocation where = SourceLocation::Current())  // NOLINT: likewise
      : name(field), location(where) {}
  absl::string_view name;
  SourceLocation location;
};

// The name of a field or a table's column, which may be any text, as one for nodes and variables: "house_price" for
// "house price".
std::string NodeName(absl::string_view name);

// One tower's examples: a placeholder [N, ...] for each field. Where the step augments images (data::Field::in_step),
// operator[] returns the augmented ones. The extent N is unknown while the graph is built, so a last, smaller batch
// needs no other graph.
class Batch {
 public:
  Batch() = default;  // without fields
  // Adds the placeholders to the name scope "batch/" of `scope`: "tower_0/batch/image". An error of the graph if
  // data::CheckFields refuses the fields; unknown extents are accepted.
  Batch(const Scope& scope, absl::Span<const data::Field> fields);

  // The field of that name: batch["tokens"]. If there is none, an error of the graph that lists the fields there are.
  Output operator[](FieldName name) const;

  absl::Span<const data::Field> fields() const { return fields_; }
  absl::Span<const Output> placeholders() const { return placeholders_; }  // in the order of fields()

  // For Session::Prepare: the shapes of `examples` examples, with `extents` for the unknown extents of fields(), in
  // order. Values are then fed in the order of fields().
  std::vector<FeedSpec> FeedSpecs(int64_t examples, absl::Span<const int64_t> extents = {}) const;
  // For Session::Run: the values of one tower, whose fields are in the order of fields().
  std::vector<Feed> Feeds(const data::TowerBatch& examples) const;

 private:
  // The images that models see in the place of field number `field`.
  Output ImagesOf(const Scope& scope, const data::ImagesInStep& images, size_t field) const;

  Graph* graph_ = nullptr;  // null without fields
  std::string where_;       // "tower_0/"
  std::vector<data::Field> fields_;
  std::vector<Output> placeholders_, values_;  // values_: as models see them
};

}  // namespace belfry::models
