// Names of devices: "/job:localhost/replica:0/task:0/device:GPU:0", partial, with wildcards, and the short "/gpu:0".
//
//   name      = "" | "/" | component+            any order; of two components for one field the last one holds
//   component = "/job:" (word | "*")             a "*" leaves its field unset
//             | "/replica:" (number | "*")
//             | "/task:" (number | "*")
//             | "/device:" (word | "*") [":" (number | "*")]
//             | ("/cpu:" | "/CPU:" | "/gpu:" | "/GPU:") (number | "*")
//   word      = [A-Za-z][A-Za-z0-9_]*
//   number    = [0-9]+, at most 2147483647; leading zeros are dropped
//
// This is TensorFlow's C++ grammar with one difference: the types CPU and GPU are stored in upper case however they are
// written, so that "/device:gpu:0" is the GPU (in TensorFlow's C++ it is not, in its Python it is). Other types keep
// their case.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace belfry {

// A parsed device name; a field that is not set puts no constraint. A value; every function below is thread-safe.
struct DeviceName {
  std::optional<std::string> job;
  std::optional<int> replica;
  std::optional<int> task;
  std::optional<std::string> type;  // "CPU", "GPU"
  std::optional<int> id;

  // InvalidArgument quotes the text and the component that is wrong, and says what may stand there.
  static absl::StatusOr<DeviceName> Parse(absl::string_view text);
  // "CPU:10", no slash: the type and the id, both there, no wildcard. Errors as Parse.
  static absl::StatusOr<DeviceName> ParseLocal(absl::string_view text);
  // Every field set. REQUIRES: job and type are words of the grammar, the numbers are not negative.
  static DeviceName Full(absl::string_view job, int replica, int task, absl::string_view type, int id);

  // job, replica and task are set: a process is named.
  bool HasFullTask() const { return job && replica && task; }
  // type and id are set: a device of some process is named.
  bool HasFullDevice() const { return type && id; }
  bool IsFull() const { return HasFullTask() && HasFullDevice(); }

  // The job, replica and task of this name, or its type and id; the other fields are not set.
  DeviceName TaskPart() const { return {.job = job, .replica = replica, .task = task}; }
  DeviceName DevicePart() const { return {.type = type, .id = id}; }
  // The first CPU of the same process.
  DeviceName HostCpu() const { return {.job = job, .replica = replica, .task = task, .type = "CPU", .id = 0}; }

  // The fields that are set, in the order of the members: "/job:a/device:GPU:0". A type without id prints as
  // "/device:GPU:*", an id without type is not printed. Parses back to the same name, but for such an id.
  std::string ToString() const;
  // "/job:localhost/replica:0/task:0/gpu:0": how TensorFlow up to 1.1 prints a device, and the placement log. A type
  // other than CPU and GPU, which has no such form, prints as in ToString().
  std::string ToLegacyString() const;
  // "GPU:0", as ParseLocal reads it. REQUIRES: HasFullDevice().
  std::string ToLocalString() const;

  bool operator==(const DeviceName& other) const = default;
};

// The two halves of a name: "/job:a/task:1" (as far as set, may be "") and "GPU:0".
struct SplitDeviceName {
  std::string task;
  std::string device;
};
// nullopt unless name.HasFullDevice().
std::optional<SplitDeviceName> Split(const DeviceName& name);
// "/job:a/replica:0/task:1"; nullopt unless name.HasFullTask().
std::optional<std::string> TaskName(const DeviceName& name);

// Every field that `less` sets is set in `more`, to the same value: each device that `more` allows, `less` allows too.
bool IsSpecification(const DeviceName& less, const DeviceName& more);
// `full` names one device, and `pattern` allows it.
bool IsCompleteSpecification(const DeviceName& pattern, const DeviceName& full);
// One is a specification of the other. So "/job:a" and "/task:0" are not compatible, although one device may be both.
bool AreCompatible(const DeviceName& a, const DeviceName& b);
// Both name a process, and it is the same one.
bool IsSameAddressSpace(const DeviceName& a, const DeviceName& b);
// Both set the job, the replica or the task, to different values. Neither this nor the former holds where a field that
// would tell is not set.
bool IsDifferentAddressSpace(const DeviceName& a, const DeviceName& b);

// What Merge does with fields that both names set, to different values. Job, replica and task must agree in any case.
enum class MergeMode {
  kHard,      // an error
  kSoft,      // different types: type and id become unset; different ids: the id becomes unset
  kOverride,  // the type and the id of `other` hold; where `other` has no id, that of `target` stays
};
// The constraints of both names together. InvalidArgument "Cannot merge devices with incompatible types: 'A' and 'B'"
// (or jobs, replicas, tasks, ids) where they contradict each other.
absl::StatusOr<DeviceName> Merge(DeviceName target, const DeviceName& other, MergeMode mode);

// Fields set in `inner` override those of `outer`, all five of them: how nested device scopes combine, and how a
// request is made to hold whatever was there (TensorFlow's EnsureSpecification). "/gpu:7" with "/device:GPU:*" inside
// stays
// "/device:GPU:7"; an empty `inner` changes nothing.
DeviceName MergeOverride(DeviceName outer, const DeviceName& inner);

// `name`, a device name or a local one ("CPU:0"), with what it leaves open taken from `basename`. InvalidArgument if
// one of them does not parse or `basename` is not full.
absl::StatusOr<DeviceName> CanonicalizeDeviceName(absl::string_view name, absl::string_view basename);

// The names by which a table of devices should know this one: over processes, "/job:a/replica:0/task:1/device:GPU:0"
// and
// ".../gpu:0"; within one, "/device:GPU:0" and "GPU:0". Empty unless name.IsFull(), or HasFullDevice() for the latter.
std::vector<std::string> NamesForDeviceMappings(const DeviceName& name);
std::vector<std::string> LocalNamesForDeviceMappings(const DeviceName& name);

}  // namespace belfry
