#include "framework/data/dataset.h"

#include <algorithm>
#include <exception>
#include <new>

#include "absl/strings/str_cat.h"
#include "framework/base/memory/out_of_memory.h"
#include "framework/base/status.h"
#include "framework/io/checksum.h"

namespace belfry::data {
namespace {

constexpr int64_t kSampledExamples = 64;

}  // namespace

absl::Status CatchExceptions(int64_t index, absl::FunctionRef<absl::Status()> read) {
  const auto thrown = [&](absl::string_view what) {
    return absl::InternalError(absl::StrCat("The reading of example ", index, " threw an exception: ", what));
  };
  try {
    return read();
  } catch (const std::bad_alloc& error) {
    return OutOfMemory("the reading of an example", error);
  } catch (const std::exception& error) {
    return thrown(error.what());
  } catch (...) {
    return thrown("of a type that is no std::exception");
  }
}

absl::Status ReadInto(const Dataset& dataset, int64_t index, const Example& example,
                      const std::optional<Variation>& variation) {
  return CatchExceptions(index, [&] {
    return variation.has_value() ? dataset.ReadVaried(index, *variation, example) : dataset.Read(index, example);
  });
}

absl::StatusOr<std::vector<Tensor>> ReadExample(const Dataset& dataset, int64_t index) {
  std::vector<Tensor> tensors;
  std::vector<std::byte*> places;
  for (const Field& field : dataset.fields()) {
    tensors.emplace_back(field.dtype, field.shape);
    places.push_back(static_cast<std::byte*>(tensors.back().raw()));
  }
  RETURN_IF_ERROR(ReadInto(dataset, index, Example(places)));
  return tensors;
}

absl::StatusOr<std::string> DataLine(const Dataset& dataset) {
  std::string sampled;
  const int64_t count = std::min(kSampledExamples, dataset.size());
  for (int64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(const std::vector<Tensor> example, ReadExample(dataset, i * dataset.size() / count));
    for (const Tensor& field : example) sampled.append(static_cast<const char*>(field.raw()), field.bytes());
  }
  return absl::StrCat("data: ", FieldsText(dataset.fields()), "; ", dataset.size(), " examples, checksum of ", count,
                      " of them ", io::ChecksumText(sampled.data(), sampled.size()));
}

}  // namespace belfry::data
