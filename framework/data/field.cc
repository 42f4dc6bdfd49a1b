#include "framework/data/field.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace belfry::data {

std::string Field::ToString() const { return absl::StrCat(name, " ", DTypeName(dtype), " ", shape.ToString()); }

std::string FieldsText(absl::Span<const Field> fields) {
  return absl::StrJoin(fields, ", ",
                       [](std::string* text, const Field& field) { absl::StrAppend(text, field.ToString()); });
}

absl::StatusOr<size_t> FindField(absl::Span<const Field> fields, absl::string_view name) {
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].name == name) return i;
  }
  return absl::NotFoundError(
      absl::StrCat("There is no field '", name, "'; an example has ", fields.empty() ? "none" : FieldsText(fields)));
}

absl::Status CheckFields(absl::Span<const Field> fields) {
  const auto invalid = [](const auto&... parts) { return absl::InvalidArgumentError(absl::StrCat(parts...)); };
  if (fields.empty()) return invalid("an example has no field; expected at least one");
  for (size_t i = 0; i < fields.size(); ++i) {
    const Field& field = fields[i];
    if (field.name.empty()) return invalid("field ", i, " has no name; the fields are ", FieldsText(fields));
    if (FindField(fields.first(i), field.name).ok()) return invalid("two fields have the name '", field.name, "'");
    if (!field.shape.known()) {
      return invalid("the field ", field.ToString(), " has an unknown extent; all examples have the same shape");
    }
    if (field.categories < 0 || (field.categories > 0 && !IsInteger(field.dtype))) {
      return invalid("the field ", field.ToString(), " has ", field.categories,
                     " categories; expected 0, or at least 1 for a field of integers");
    }
    if (!field.category_names.empty() && field.category_names.size() != static_cast<size_t>(field.categories)) {
      return invalid("the field ", field.ToString(), " has ", field.category_names.size(), " names for ",
                     field.categories, " categories; expected no names or one each");
    }
  }
  return absl::OkStatus();
}

}  // namespace belfry::data
