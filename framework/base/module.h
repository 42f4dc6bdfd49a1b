// Modules: back-ends that a machine may lack, in shared libraries that a program loads when it needs them.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace belfry {

// A module is a shared library libbelfry_<name>.so with one entry point of C linkage,
//
//   extern "C" const void* belfry_<name>_module(const char* part);
//
// which returns the address of a constant table of functions, by the name of the layer that calls them ("device",
// "collective", "ops"), or null where it has nothing for that layer. Each layer declares the type of its table. For
// part "version" it returns kBuild: the tables of a module fit one libbelfry only.
//
// A table's address stays valid until the process ends; modules are never unloaded.
class Module {
 public:
  // Loads module `name`, or finds it in the process: a program may link the library, or define the entry point itself,
  // as tests do with doubles. Otherwise the library is looked for beside libbelfry.so. Thread-safe; the lookup is done
  // once per name by the caller, which keeps the result. NVIDIA's libraries that the module needs are also found where
  // the loader does not look (framework/base/library/cuda_libraries.h).
  //
  // Errors: NotFound if there is no such library, since Belfry was built without it or its package is not installed;
  // FailedPrecondition if it or a library that it needs cannot be loaded, with the loader's words or the names of the
  // libraries and of their packages, or if it is of another version.
  static absl::StatusOr<Module> Load(const std::string& name);

  // The table for one layer, or null.
  template <class Table>
  const Table* Find(const char* part) const {
    return static_cast<const Table*>(entry_(part));
  }

 private:
  using EntryPoint = const void* (*)(const char* part);
  explicit Module(EntryPoint entry) : entry_(entry) {}

  EntryPoint entry_;
};

// The CUDA module, loaded at the first call. Thread-safe. Errors: those of Load, in words for users who asked for a
// GPU: "this Belfry was built or installed without CUDA", "this machine has no CUDA driver".
const absl::StatusOr<Module>& CudaModule();

}  // namespace belfry
