// The fields of batches of sequences. Internal.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/tensor.h"
#include "framework/data/field.h"

namespace belfry::data {

// True for [?, ...].
bool IsSequence(const Field& field);

// The numbers that fields are padded with, as scalars of their dtypes, by field. InvalidArgument if the fields are not
// those of a SequenceDataset, one has the name of the lengths, or a padding is for what is not a sequence or is not a
// number of the field's dtype.
absl::StatusOr<std::vector<Tensor>> PaddingOf(absl::Span<const Field> fields,
                                              const std::map<std::string, double>& given,
                                              const std::string& length_field);

}  // namespace belfry::data
