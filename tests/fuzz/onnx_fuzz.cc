// Input: an ONNX file, without files beside it. The graph of a model that is read must be sound; no plan is compiled,
// since a model may ask for any amount of memory.
#include "models/onnx/import.h"

#include "framework/runtime/saved_model/saved_model.h"
#include "ops/builtin_ops.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace belfry;
  static const auto* const devices = new DeviceSet(DeviceSet::Open("cpu:1", {.cpu_threads = 1}).value());
  const fuzz::Folder folder;
  folder.Write("input", fuzz::Input(data, size).Rest());
  const auto summary = models::ImportOnnx(folder / "input", folder / "output");
  if (!summary.ok()) {
    BELFRY_CHECK(!summary.status().message().empty() && summary.status().code() != absl::StatusCode::kInternal);
    return 0;
  }
  const auto model = SavedModel::Open(folder / "output", BuiltinOps(), *devices);
  BELFRY_CHECK(model.ok() && model->outputs().size() == summary->outputs.size());
  return 0;
}
