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
  // Every field set. REQUIRES: job and type are words of the grammar, the numbers are not negative.
  static DeviceName Full(absl::string_view job, int replica, int task, absl::string_view type, int id);

  // job, replica and task are set: a process is named.
  bool HasFullTask() const { return job && replica && task; }
  // type and id are set: a device of some process is named.
  bool HasFullDevice() const { return type && id; }
  bool IsFull() const { return HasFullTask() && HasFullDevice(); }

  // The fields that are set, in the order of the members: "/job:a/device:GPU:0". A type without id prints as
  // "/device:GPU:*", an id without type is not printed. Parses back to the same name, but for such an id.
  std::string ToString() const;
  // "/job:localhost/replica:0/task:0/gpu:0": how TensorFlow up to 1.1 prints a device, and the placement log. A type
  // other than CPU and GPU, which has no such form, prints as in ToString().
  std::string ToLegacyString() const;
  // "GPU:0". REQUIRES: HasFullDevice().
  std::string ToLocalString() const;

  bool operator==(const DeviceName& other) const = default;
};

// Every field that `less` sets is set in `more`, to the same value: each device that `more` allows, `less` allows too.
bool IsSpecification(const DeviceName& less, const DeviceName& more);
// Both set the job, the replica or the task, to different values. False where a field that would tell is not set.
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

}  // namespace belfry
