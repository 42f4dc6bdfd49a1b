// Input: a saved model, most often without checksums. Its tensors are what the file has, so they are small; a plan is
// not compiled, since a graph may ask for any amount of memory.
#include "framework/runtime/saved_model/saved_model.h"

#include "ops/builtin_ops.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace belfry;
  static const auto* const devices = new DeviceSet(DeviceSet::Open("cpu:1", {.cpu_threads = 1}).value());
  const fuzz::Folder folder;
  folder.Write("input", fuzz::Input(data, size).Rest());
  const auto model = SavedModel::Open(folder / "input", BuiltinOps(), *devices);
  if (!model.ok()) {
    BELFRY_CHECK(!model.status().message().empty() && model.status().code() != absl::StatusCode::kInternal);
    return 0;
  }
  for (const NamedOutput& output : model->outputs()) BELFRY_CHECK(output.value.valid());
  if (!model->inputs().empty()) BELFRY_CHECK(!model->Run({}).ok());
  return 0;
}
