// Rank 0's disk.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace belfry::simulation {

// The data that outlive the processes. Files are real ones, in a temporary folder.
class Disk {
 public:
  Disk() = default;
  ~Disk();
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  // The checkpoint of the program by hand.
  struct Checkpoint {
    int64_t step = -1;  // -1: none
    std::vector<float> weights = {};
  };
  Checkpoint& checkpoint() { return checkpoint_; }
  // The folder, which the first call makes.
  const std::string& folder();

  // `text` without the path of the folder, which is another one in each run.
  std::string WithoutFolder(absl::string_view text) const;

  // Calls `act`, and undoes what it changes.
  void Protect(absl::FunctionRef<void()> act);

 private:
  Checkpoint checkpoint_;
  std::string folder_;  // empty: there is none
};

}  // namespace belfry::simulation
