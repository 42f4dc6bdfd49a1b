// Reports of the memory that a step needs.
#pragma once

#include <string>
#include <vector>

#include "framework/compiler/plan.h"

namespace belfry {

struct MemoryItem {
  std::string what;  // "variable conv1/weights float32[5,5,3,64]", "tower_0/conv1/Conv2D float32[128,24,24,64]"
  size_t bytes = 0;
};

// The memory of one device, in bytes. The first three live as long as the session and count all of the graph's
// variables; the rest is the plan's. Inputs to gaps describe the moment of a step at which the arena is fullest.
struct DeviceMemoryReport {
  size_t parameters = 0;  // trainable variables
  size_t slots = 0;       // variables that belong to others: of optimizers, moving averages
  size_t others = 0;      // further variables
  size_t copies = 0;      // of constants and of large feeds, on devices that do not see the host's memory
  size_t inputs = 0;      // feeds
  size_t activations = 0;
  size_t gradients = 0;             // results of the backward pass
  size_t workspace = 0;             // of kernels
  size_t gaps = 0;                  // the rest of the arena
  std::vector<MemoryItem> largest;  // variables and parts of the arena at that moment, descending

  size_t variables() const { return parameters + slots + others; }
  size_t arena() const { return inputs + activations + gradients + workspace + gaps; }
  size_t total() const { return variables() + copies + arena(); }
};

// By device. `devices_by_node` are Placement::device. At most `largest` items each.
std::vector<DeviceMemoryReport> ReportMemory(const Plan& plan, const Graph& graph, const DeviceSet& devices,
                                             const std::vector<int>& devices_by_node, int largest = 8);

// The report as a table in MiB, a row for each device that needs any memory, and the largest items of each.
std::string MemoryTable(const std::vector<DeviceMemoryReport>& reports, const DeviceSet& devices);

// By device: the bytes of constants and large feeds that an executable of the plan copies to a GPU.
std::vector<size_t> CopyBytes(const Plan& plan, const DeviceSet& devices);

// The bytes that an executable of the plan allocates on CPU devices.
size_t BytesOnCpus(const Plan& plan, const DeviceSet& devices);

// ResourceExhausted if a GPU, or the process for its CPU devices together, does not have the memory that an executable
// of the plan still has to allocate. `untouched`: BytesOnCpus of executables that have not run yet, whose memory the
// system does not count as used. The error says what is needed, what is left and what to lower.
absl::Status CheckMemory(const Plan& plan, const DeviceSet& devices, size_t untouched = 0);

}  // namespace belfry
