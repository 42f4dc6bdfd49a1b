// Runs saved models (docs/saved_models.md): the C++ interface of libbelfry_inference, over that of belfry_inference.h.
// Needs C++17 and nothing but the standard library.
//
//   std::string error;
//   const belfry::inference::Model model = belfry::inference::Model::Open("digits.safetensors", 1, error);
//   belfry::inference::Runner runner = model.Prepare({{1, 28, 28, 1}}, error);
//   if (!runner) ...
//   std::copy(pixels.begin(), pixels.end(), runner.input<float>(0));
//   if (!runner.Run(error)) ...
//   const float* logits = runner.output<float>(0);
#pragma once

#include <belfry_inference.h>

#include <cassert>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace belfry::inference {

namespace internal {

// Moves a message of the C interface into `text`.
inline void TakeMessage(char* message, std::string& text) {
  if (message == nullptr) return;
  text = message;
  belfry_free(message);
}

template <class T>
bool Holds(belfry_dtype dtype) {
  switch (dtype) {
    case BELFRY_FLOAT32: return std::is_same_v<T, float>;
    case BELFRY_FLOAT64: return std::is_same_v<T, double>;
    case BELFRY_FLOAT16:
    case BELFRY_BFLOAT16: return sizeof(T) == 2;
    case BELFRY_INT32: return std::is_same_v<T, int32_t>;
    case BELFRY_INT64: return std::is_same_v<T, int64_t>;
    case BELFRY_UINT8: return std::is_same_v<T, uint8_t>;
    case BELFRY_BOOL: return std::is_same_v<T, bool>;
  }
  return false;
}

struct Release {
  void operator()(belfry_model* model) const { belfry_model_close(model); }
  void operator()(belfry_runner* runner) const { belfry_runner_destroy(runner); }
};

}  // namespace internal

// The memory for running a model with inputs of certain shapes; false if it could not be made. One thread at a time.
// Movable. Must not outlive its model. The functions of a false one must not be called.
class Runner {
 public:
  Runner() = default;
  explicit operator bool() const { return runner_ != nullptr; }

  // Input and output `i` with name, dtype and shape.
  const belfry_tensor& input(int i) const { return *belfry_runner_input(runner_.get(), i); }
  const belfry_tensor& output(int i) const { return *belfry_runner_output(runner_.get(), i); }
  // Their elements. REQUIRES: T is the C++ type of the dtype: float, double, int32_t, int64_t, uint8_t, bool, or one of
  // 16 bits.
  template <class T>
  T* input(int i) const {
    assert(internal::Holds<T>(input(i).dtype));
    return static_cast<T*>(input(i).data);
  }
  template <class T>
  const T* output(int i) const {
    assert(internal::Holds<T>(output(i).dtype));
    return static_cast<const T*>(output(i).data);
  }

  // Computes the outputs from the inputs. Returns false, and says in `error` why, if that fails.
  bool Run(std::string& error) {
    char* message = nullptr;
    const int status = belfry_runner_run(runner_.get(), &message);
    internal::TakeMessage(message, error);
    return status == 0;
  }

 private:
  friend class Model;
  std::unique_ptr<belfry_runner, internal::Release> runner_;
};

// A file that has been read; false if it could not be, and then only Prepare may be called, which fails. Thread-safe.
// Movable.
class Model {
 public:
  // As belfry_model_open. On failure returns a false Model, and says in `error` why.
  static Model Open(const std::string& path, int threads, std::string& error) {
    Model model;
    char* message = nullptr;
    model.model_.reset(belfry_model_open(path.c_str(), threads, &message));
    internal::TakeMessage(message, error);
    return model;
  }

  Model() = default;
  explicit operator bool() const { return model_ != nullptr; }

  int input_count() const { return belfry_model_input_count(model_.get()); }
  int output_count() const { return belfry_model_output_count(model_.get()); }
  const belfry_tensor& input(int i) const { return *belfry_model_input(model_.get(), i); }
  const belfry_tensor& output(int i) const { return *belfry_model_output(model_.get(), i); }

  // Prepares runs with inputs of these shapes, one for each input. On failure returns a false Runner, and says in
  // `error` why.
  Runner Prepare(const std::vector<std::vector<int64_t>>& shapes, std::string& error) const {
    Runner runner;
    if (!*this) {
      error = "There is no model";
      return runner;
    }
    std::vector<const int64_t*> extents;
    for (size_t i = 0; i < shapes.size(); ++i) {
      const int rank = static_cast<int>(i) < input_count() ? input(static_cast<int>(i)).rank : -1;
      if (static_cast<int>(shapes[i].size()) != rank) break;
      extents.push_back(shapes[i].data());
    }
    if (extents.size() != shapes.size() || static_cast<int>(extents.size()) != input_count()) {
      error = "The model has " + std::to_string(input_count()) +
              " inputs, but the number of shapes or the rank of shape " + std::to_string(extents.size()) +
              " is not that of its inputs";
      return runner;
    }
    char* message = nullptr;
    runner.runner_.reset(belfry_runner_create(model_.get(), extents.data(), &message));
    internal::TakeMessage(message, error);
    return runner;
  }

 private:
  std::unique_ptr<belfry_model, internal::Release> model_;
};

}  // namespace belfry::inference
