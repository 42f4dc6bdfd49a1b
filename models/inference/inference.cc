// The C interface of libbelfry_inference, on SavedModel.
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "framework/base/memory/out_of_memory.h"
#include "framework/base/status.h"
#include "framework/device/device_set.h"
#include "framework/runtime/saved_model/saved_model.h"
#include "models/inference/belfry_inference.h"
#include "ops/builtin_ops.h"

namespace {

using belfry::Tensor;

static_assert(BELFRY_FLOAT32 == static_cast<int>(belfry::DType::kFloat32) &&
              BELFRY_FLOAT64 == static_cast<int>(belfry::DType::kFloat64) &&
              BELFRY_FLOAT16 == static_cast<int>(belfry::DType::kFloat16) &&
              BELFRY_BFLOAT16 == static_cast<int>(belfry::DType::kBFloat16) &&
              BELFRY_INT32 == static_cast<int>(belfry::DType::kInt32) &&
              BELFRY_INT64 == static_cast<int>(belfry::DType::kInt64) &&
              BELFRY_UINT8 == static_cast<int>(belfry::DType::kUInt8) &&
              BELFRY_BOOL == static_cast<int>(belfry::DType::kBool));

// Descriptions of values whose extents and names live elsewhere.
using Tensors = std::vector<belfry_tensor>;

belfry_tensor Describe(const std::string& name, belfry::DType dtype, const belfry::Shape& shape) {
  return {name.c_str(), static_cast<belfry_dtype>(dtype), shape.rank(), shape.dims().data(), nullptr, 0};
}

// `of`: the inputs or outputs of `owner`, which may be null.
template <class Owner>
const belfry_tensor* At(const Owner* owner, Tensors Owner::*of, int index) {
  return owner != nullptr && index >= 0 && index < static_cast<int>((owner->*of).size()) ? &(owner->*of)[index]
                                                                                         : nullptr;
}

void Report(const absl::Status& status, char** error) {
  if (error == nullptr) return;
  const std::string message(status.message());
  *error = strdup(message.empty() ? "out of memory" : message.c_str());
}

}  // namespace

struct belfry_model {
  explicit belfry_model(belfry::DeviceSet opened) : devices(std::move(opened)) {}

  // Not one for the process: a program that unloads the library gets its memory back.
  const belfry::OpRegistry ops = belfry::ops::MakeInferenceOps();
  belfry::DeviceSet devices;
  std::unique_ptr<const belfry::SavedModel> model;
  Tensors inputs, outputs;
};

struct belfry_runner {
  std::vector<Tensor> feeds;
  std::unique_ptr<belfry::PreparedStep> step;
  Tensors inputs, outputs;
};

namespace {

Tensors DescribeAll(absl::Span<const belfry::NamedOutput> values) {
  Tensors tensors;
  for (const auto& [name, value] : values) tensors.push_back(Describe(name, value.dtype(), value.shape()));
  return tensors;
}

absl::StatusOr<std::unique_ptr<belfry_model>> Open(const std::string& path, int threads) {
  if (path.empty()) return absl::InvalidArgumentError("no file of a saved model was named");
  // A launcher of several processes concerns training.
  ASSIGN_OR_RETURN(belfry::DeviceSet devices,
                   belfry::DeviceSet::Open("cpu:1", {.cpu_threads = threads, .ignore_launcher = true}));
  auto opened = std::make_unique<belfry_model>(std::move(devices));
  ASSIGN_OR_RETURN(belfry::SavedModel model, belfry::SavedModel::Open(path, opened->ops, opened->devices));
  opened->model = std::make_unique<const belfry::SavedModel>(std::move(model));
  opened->inputs = DescribeAll(opened->model->inputs());
  opened->outputs = DescribeAll(opened->model->outputs());
  return opened;
}

absl::StatusOr<std::unique_ptr<belfry_runner>> CreateRunner(const belfry_model* opened, const int64_t* const* extents) {
  if (opened == nullptr) return absl::InvalidArgumentError("no model was given: it is NULL");
  const belfry_model& model = *opened;
  auto runner = std::make_unique<belfry_runner>();
  std::vector<belfry::Shape> shapes;
  for (size_t i = 0; i < model.inputs.size(); ++i) {
    const bool scalar = model.inputs[i].rank == 0;
    if (extents == nullptr || (extents[i] == nullptr && !scalar)) {
      return absl::InvalidArgumentError(absl::StrCat("no extents of input '", model.inputs[i].name, "' were given"));
    }
    ASSIGN_OR_RETURN(shapes.emplace_back(),
                     belfry::Shape::Make({extents[i], static_cast<size_t>(model.inputs[i].rank)}));
  }
  ASSIGN_OR_RETURN(runner->step, model.model->Prepare(shapes));
  const auto add = [](const belfry_tensor& of_model, Tensor& value, Tensors& tensors) {
    tensors.push_back(
        {of_model.name, of_model.dtype, value.shape().rank(), value.shape().dims().data(), value.raw(), value.bytes()});
  };
  for (size_t i = 0; i < shapes.size(); ++i) {
    ASSIGN_OR_RETURN(runner->feeds.emplace_back(), Tensor::Allocate(model.model->inputs()[i].value.dtype(), shapes[i]));
    if (runner->feeds[i].bytes() > 0) std::memset(runner->feeds[i].raw(), 0, runner->feeds[i].bytes());
  }
  for (size_t i = 0; i < shapes.size(); ++i) add(model.inputs[i], runner->feeds[i], runner->inputs);
  for (size_t i = 0; i < model.outputs.size(); ++i) {
    // Outputs are read only, but tensors of the C interface are not const.
    add(model.outputs[i], const_cast<Tensor&>(runner->step->fetched(static_cast<int>(i))), runner->outputs);
  }
  return runner;
}

// Calls `body`, whose exceptions end here: callers may not be C++.
template <class Body>
auto WithoutExceptions(absl::string_view during, const Body& body) -> decltype(body()) {
  try {
    return belfry::CatchOutOfMemory(during, body);
  } catch (const std::exception& exception) {
    return absl::InternalError(absl::StrCat(during, ": ", exception.what()));
  } catch (...) {
    return absl::InternalError(absl::StrCat(during, ": an exception that is no std::exception"));
  }
}

// Passes the object to the caller of the C interface; if there is none, reports the error and returns null.
template <class T>
T* Release(absl::StatusOr<std::unique_ptr<T>> result, char** error) {
  if (result.ok()) return result->release();
  Report(result.status(), error);
  return nullptr;
}

}  // namespace

const char* belfry_inference_version() { return BELFRY_VERSION; }

void belfry_free(char* message) { std::free(message); }

belfry_model* belfry_model_open(const char* path, int threads, char** error) {
  const std::string file = path == nullptr ? "" : path;
  return Release(WithoutExceptions("opening a saved model", [&] { return Open(file, threads); }), error);
}

void belfry_model_close(belfry_model* model) { delete model; }

int belfry_model_input_count(const belfry_model* model) {
  return model == nullptr ? 0 : static_cast<int>(model->inputs.size());
}
int belfry_model_output_count(const belfry_model* model) {
  return model == nullptr ? 0 : static_cast<int>(model->outputs.size());
}
const belfry_tensor* belfry_model_input(const belfry_model* model, int index) {
  return At(model, &belfry_model::inputs, index);
}
const belfry_tensor* belfry_model_output(const belfry_model* model, int index) {
  return At(model, &belfry_model::outputs, index);
}

belfry_runner* belfry_runner_create(const belfry_model* model, const int64_t* const* extents, char** error) {
  return Release(WithoutExceptions("preparing a saved model", [&] { return CreateRunner(model, extents); }), error);
}

void belfry_runner_destroy(belfry_runner* runner) { delete runner; }

const belfry_tensor* belfry_runner_input(const belfry_runner* runner, int index) {
  return At(runner, &belfry_runner::inputs, index);
}
const belfry_tensor* belfry_runner_output(const belfry_runner* runner, int index) {
  return At(runner, &belfry_runner::outputs, index);
}

int belfry_runner_run(belfry_runner* runner, char** error) {
  const absl::Status status = WithoutExceptions("running a saved model", [&] {
    return runner == nullptr ? absl::InvalidArgumentError("no runner was given: it is NULL")
                             : runner->step->Run(runner->feeds);
  });
  if (status.ok()) return 0;
  Report(status, error);
  return -1;
}
