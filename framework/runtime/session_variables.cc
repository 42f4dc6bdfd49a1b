#include "absl/strings/str_cat.h"
#include "framework/base/check.h"
#include "framework/base/memory/out_of_memory.h"
#include "framework/base/status.h"
#include "framework/runtime/session.h"

namespace belfry {
absl::StatusOr<VariableStorage*> Session::StorageOf(const Variable& variable) {
  ASSIGN_OR_RETURN(const std::vector<VariableStorage*> storage, StorageOf(absl::MakeConstSpan(&variable, 1)));
  return storage[0];
}

absl::StatusOr<std::vector<VariableStorage*>> Session::StorageOf(absl::Span<const Variable> variables) {
  if (state_.closed.load()) return absl::CancelledError("Session has been closed.");
  for (const Variable& variable : variables) {
    if (!variable.valid()) {
      return absl::InvalidArgumentError("A variable is invalid (default-constructed, or not found)");
    }
    if (&variable.node().graph() != &graph_) {
      return absl::InvalidArgumentError(absl::StrCat("Variable ", variable.name(), " belongs to another graph"));
    }
  }
  const MutexLock lock(mutex_);
  RETURN_IF_ERROR(Extend());
  std::vector<VariableStorage*> storage;
  for (const Variable& variable : variables) storage.push_back(&variables_.at(&variable.node()));
  return storage;
}

absl::StatusOr<Tensor> Session::ReadVariable(const Variable& variable) {
  Tensor value;
  RETURN_IF_ERROR(ReadVariables(absl::MakeConstSpan(&variable, 1), absl::MakeSpan(&value, 1)));
  return value;
}

absl::Status Session::WriteVariable(const Variable& variable, const Tensor& value) {
  return WriteVariables(absl::MakeConstSpan(&variable, 1), absl::MakeConstSpan(&value, 1));
}

absl::Status Session::ReadVariables(absl::Span<const Variable> variables, absl::Span<Tensor> values) {
  return CatchOutOfMemory("the reading of variables", [&]() -> absl::Status {
    BELFRY_CHECK(variables.size() == values.size());
    ASSIGN_OR_RETURN(const std::vector<VariableStorage*> storage, StorageOf(variables));
    bool exclusive = false;
    for (size_t i = 0; i < variables.size(); ++i) {
      exclusive = exclusive || devices_.device(storage[i]->device).asynchronous();
    }
    const ScopedRun run(state_.gate, exclusive);
    for (size_t i = 0; i < variables.size(); ++i) {
      if (!storage[i]->initialized) return UninitializedError(variables[i].node());
    }
    for (size_t i = 0; i < variables.size(); ++i) {
      const Variable& variable = variables[i];
      const bool fits = values[i].dtype() == variable.dtype() && values[i].shape() == variable.shape() &&
                        (values[i].bytes() == 0 || values[i].raw() != nullptr);
      if (!fits) {
        ASSIGN_OR_RETURN(values[i], Tensor::Allocate(variable.dtype(), variable.shape()));
      }
      RETURN_IF_ERROR(queues_.CopyOut(storage[i]->device, values[i].raw(), storage[i]->data, values[i].bytes()));
    }
    return absl::OkStatus();
  });
}

absl::Status Session::WriteVariables(absl::Span<const Variable> variables, absl::Span<const Tensor> values) {
  return CatchOutOfMemory("the writing of variables", [&]() -> absl::Status {
    BELFRY_CHECK(variables.size() == values.size());
    ASSIGN_OR_RETURN(const std::vector<VariableStorage*> storage, StorageOf(variables));
    for (size_t i = 0; i < variables.size(); ++i) {
      const Variable& variable = variables[i];
      const Tensor& value = values[i];
      if (value.shape() != variable.shape() || value.dtype() != variable.dtype()) {
        return absl::InvalidArgumentError(
            absl::StrCat("Cannot write ", DTypeName(value.dtype()), " ", value.shape().ToString(), " to variable ",
                         variable.name(), ", which is ", DTypeName(variable.dtype()), " ", variable.shape().ToString(),
                         " and was created at ", variable.node().location().ToString()));
      }
      if (value.bytes() > 0 && value.raw() == nullptr) {
        return absl::InvalidArgumentError(
            absl::StrCat("The value for variable ", variable.name(), " has a shape but no data"));
      }
    }
    const ScopedRun run(state_.gate, /*exclusive=*/true);
    for (size_t i = 0; i < variables.size(); ++i) {
      RETURN_IF_ERROR(queues_.CopyIn(storage[i]->device, storage[i]->data, values[i].raw(), values[i].bytes()));
      storage[i]->initialized = true;
      storage[i]->checksum.reset();
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<Variable>> Session::InitializedVariables() {
  return CatchOutOfMemory("the listing of variables", [&]() -> absl::StatusOr<std::vector<Variable>> {
    const std::vector<Variable> all = graph_.variables();
    ASSIGN_OR_RETURN(const std::vector<VariableStorage*> storage, StorageOf(all));
    const ScopedRun run(state_.gate, /*exclusive=*/false);
    std::vector<Variable> initialized;
    for (size_t i = 0; i < all.size(); ++i) {
      if (storage[i]->initialized && !all[i].transient()) initialized.push_back(all[i]);
    }
    return initialized;
  });
}

}  // namespace belfry
