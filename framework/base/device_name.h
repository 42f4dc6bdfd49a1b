// Device names: "/job:localhost/replica:0/task:0/device:GPU:0", partial names, wildcards, and the short "/gpu:0".
//
//   name      = "" | "/" | component+            in any order; if a field appears twice, the last one wins
//   component = "/job:" (word | "*")             a "*" leaves its field unset
//             | "/replica:" (number | "*")
//             | "/task:" (number | "*")
//             | "/device:" (word | "*") [":" (number | "*")]
//             | ("/cpu:" | "/CPU:" | "/gpu:" | "/GPU:") (number | "*")
//   word      = [A-Za-z][A-Za-z0-9_]*
//   number    = [0-9]+, at most 2147483647; leading zeros are dropped
//
// This is TensorFlow's C++ grammar with one difference: CPU and GPU are stored in upper case however they are written,
// so "/device:gpu:0" is the GPU (as in TensorFlow's Python, but not in its C++). Other types keep their case.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace belfry {

// A parsed device name. An unset field is unconstrained. A value type; every function below is thread-safe.
struct DeviceName {
  std::optional<std::string> job;
  std::optional<int> replica;
  std::optional<int> task;
  std::optional<std::string> type;  // "CPU", "GPU"
  std::optional<int> id;

  // InvalidArgument quotes the text and the offending component, and says what is allowed there.
  static absl::StatusOr<DeviceName> Parse(absl::string_view text);
  // A name with every field set. REQUIRES: job and type are words of the grammar, the numbers are not negative.
  static DeviceName Full(absl::string_view job, int replica, int task, absl::string_view type, int id);

  // True if job, replica and task are set, so that the name denotes a process.
  bool HasFullTask() const { return job && replica && task; }
  // True if type and id are set, so that the name denotes a device of some process.
  bool HasFullDevice() const { return type && id; }
  bool IsFull() const { return HasFullTask() && HasFullDevice(); }

  // The set fields in member order: "/job:a/device:GPU:0". A type without an id prints as "/device:GPU:*"; an id
  // without a type is not printed. Except for such an id, Parse gives back the same name.
  std::string ToString() const;
  // "/job:localhost/replica:0/task:0/gpu:0", as TensorFlow up to 1.1 and our placement log print a device. Types other
  // than CPU and GPU have no such form and print as in ToString().
  std::string ToLegacyString() const;
  // "GPU:0". REQUIRES: HasFullDevice().
  std::string ToLocalString() const;

  bool operator==(const DeviceName& other) const = default;
};

// True if every field set in `less` has the same value in `more`, so that `less` allows each device that `more` allows.
bool IsSpecification(const DeviceName& less, const DeviceName& more);
// True if the job, the replica or the task is set in both, to different values; false if the fields that would tell are
// not set.
bool IsDifferentAddressSpace(const DeviceName& a, const DeviceName& b);

// The rule of Merge for a type or id that both names set to different values. Job, replica and task must always agree.
enum class MergeMode {
  kHard,  // an error
  kSoft,  // different types: type and id are unset; different ids: the id is unset
};
// The constraints of both names combined. Where they contradict each other, InvalidArgument "Cannot merge devices with
// incompatible types: 'A' and 'B'" (or jobs, replicas, tasks, ids).
absl::StatusOr<DeviceName> Merge(DeviceName target, const DeviceName& other, MergeMode mode);

// Fields set in `inner` override `outer`'s, all five of them. This is how nested device scopes combine, and how
// a request is enforced on an existing name (TensorFlow's EnsureSpecification). "/gpu:7" with "/device:GPU:*" inside
// stays "/device:GPU:7"; an empty `inner` changes nothing.
DeviceName MergeOverride(DeviceName outer, const DeviceName& inner);

}  // namespace belfry
